# The way to Python: which one is used, how calls fail, how a command is run.

state <- new.env(parent = emptyenv())

hc_use <- function(python) {
  if (!file.exists(python)) {
    stop_hc(sprintf("hc_use: found no file %s, expected the Python of an environment with headcount",
                    sQuote(python, FALSE)))
  }
  Sys.setenv(RETICULATE_PYTHON = python)
  reticulate::use_python(python, required = TRUE)
  invisible(python)
}

py_module <- function(name) {
  if (is.null(state[[name]])) {
    found <- tryCatch(
      reticulate::import(name, convert = FALSE),
      error = function(problem) {
        stop_hc(paste0(
          "headcount: found no Python with the package ", sQuote(sub("[.].*", "", name), FALSE),
          ", expected one: install it with 'python -m pip install headcount', and name that ",
          "Python with hc_use(\"/path/to/python\") before the first call"
        ), parent = problem)
      }
    )
    assign(name, found, envir = state)
  }
  state[[name]]
}

hc <- function() py_module("headcount")

stop_hc <- function(message, kind = character(), parent = NULL) {
  condition <- structure(
    class = c(kind, "hc_error", "error", "condition"),
    list(message = message, call = NULL, parent = parent)
  )
  stop(condition)
}

# A call into Python. What headcount refuses becomes a condition of R with the same text; its class
# is that of the exception, such as "InputError", and "hc_error".
asked <- function(call) {
  tryCatch(call, error = function(problem) {
    if (inherits(problem, "hc_error")) stop(problem)
    last <- reticulate::py_last_error()
    if (is.null(last)) stop(problem)
    stop_hc(last$value, kind = last$type, parent = problem)
  })
}

called <- function(what, arguments) do.call(reticulate::py_call, c(list(what), arguments))

# The command of the same name, in a process of its own: its answer for programs, or its text.
command <- function(..., json = TRUE) {
  hc() # so that a Python without headcount is refused in words
  arguments <- c("-P", "-m", "headcount", ..., if (json) "--json")
  complaints <- tempfile("headcount-")
  on.exit(unlink(complaints))
  python <- reticulate::py_config()$python
  said <- suppressWarnings(
    system2(python, shQuote(arguments), stdout = TRUE, stderr = complaints, env = own_libraries())
  )
  code <- attr(said, "status")
  if (!is.null(code) && code != 0) {
    text <- readLines(complaints, encoding = "UTF-8", warn = FALSE)
    text <- paste(text[nzchar(text)], collapse = "\n")
    stop_hc(sub("^(Error|error): ", "", text), kind = if (code == 2) "InputError" else character())
  }
  Encoding(said) <- "UTF-8"
  said
}

# R puts folders of the system before those where a Python finds its own libraries, and one that is
# started from R would load another's. The system finds its folders without being told.
own_libraries <- function() {
  if (.Platform$OS.type == "windows") return(character())
  named <- strsplit(Sys.getenv("LD_LIBRARY_PATH"), ":", fixed = TRUE)[[1]]
  kept <- named[!startsWith(named, R.home()) & !grepl("^/(usr/)?lib(64)?(/|$)", named)]
  paste0("LD_LIBRARY_PATH=", shQuote(paste(kept, collapse = ":")))
}

from_json <- function(lines) {
  json <- reticulate::import("json")
  json$loads(paste(lines, collapse = "\n"))
}

option <- function(name, value) {
  if (is.null(value) || identical(value, "")) return(character())
  name <- paste0("--", gsub("_", "-", name, fixed = TRUE))
  if (is.logical(value)) return(if (isTRUE(value)) name)
  if (!is.null(names(value))) value <- paste0(names(value), "=", value)
  as.vector(rbind(name, plain(value)))
}

# A number as the decimal that it is written as: 0.1 is one tenth.
plain <- function(x) {
  if (!is.numeric(x)) return(as.character(x))
  vapply(x, function(one) format(one, digits = 15, scientific = FALSE, trim = TRUE), "")
}

wrapped <- function(object, kind, ...) {
  structure(list(object = object, ...), class = c(kind, "hc_object"))
}

unwrapped <- function(x, kind, argument) {
  if (inherits(x, kind)) return(x$object)
  stop_hc(sprintf("%s: found %s, expected %s", argument, class(x)[1], EXPECTED[[kind]]),
          kind = "InputError")
}

EXPECTED <- list(
  hc_population = "people: hc_read(data)",
  hc_release = "a release: hc_protect(people, method)",
  hc_method = "a method: hc_method(\"geometric\", epsilon = 1)"
)

print.hc_object <- function(x, ...) {
  cat(reticulate::py_to_r(asked(reticulate::import_builtins(convert = FALSE)$repr(x$object))), "\n",
      sep = "")
  invisible(x)
}
