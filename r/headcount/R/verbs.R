# Data in memory: read, protect, evaluate, attack, compare.

hc_read <- function(data, ..., name = NULL) {
  if (is.data.frame(data)) {
    if (is.null(name)) name <- paste(deparse(substitute(data)), collapse = "")
    data <- asked(to_polars(data))
  } else {
    data <- if (length(data) > 1) as.list(path.expand(data)) else path.expand(data)
  }
  given <- lapply(list(...), argument)
  if (!is.null(name)) given$name <- name
  wrapped(asked(called(hc()$read, c(list(data), given))), "hc_population")
}

hc_levels <- function(...) {
  wrapped(asked(called(hc()$levels, lapply(list(...), argument))), "hc_column")
}

hc_bins <- function(...) {
  wrapped(asked(called(hc()$bins, lapply(list(...), argument))), "hc_column")
}

hc_method <- function(name, ...) {
  found <- asked(py_module("headcount.registry")$MECHANISMS$get(name, source = "method"))
  wrapped(asked(called(found, lapply(list(...), setting))), "hc_method")
}

hc_protect <- function(data, method = NULL, ..., seed = NULL) {
  if (is.character(data)) {
    return(run_of(asked(hc()$protect(path.expand(data)))))
  }
  people <- unwrapped(data, "hc_population", "data")
  if (is.character(method)) method <- hc_method(method, ...)
  steps <- if (inherits(method, "hc_object")) list(method) else method
  steps <- lapply(steps, unwrapped, kind = "hc_method", argument = "method")
  if (!length(steps)) unwrapped(NULL, "hc_method", "method")
  if (!is.null(seed)) seed <- as.integer(seed)
  wrapped(asked(hc()$protect(people, unname(steps), seed = seed)), "hc_release")
}

hc_evaluate <- function(release, truth = NULL) {
  if (is.character(release) || inherits(release, "hc_run")) {
    found <- asked(hc()$evaluate(path.expand(unclass(release))))
    return(findings_of(found$evaluation))
  }
  release <- unwrapped(release, "hc_release", "release")
  findings_of(asked(hc()$evaluate(release, unwrapped(truth, "hc_population", "truth"))))
}

hc_attack <- function(release, truth, kind) {
  release <- unwrapped(release, "hc_release", "release")
  truth <- unwrapped(truth, "hc_population", "truth")
  finding <- asked(hc()$attack(release, truth, kind))
  from_polars(finding$table)
}

hc_compare <- function(data, ..., cases = NULL) {
  given <- lapply(list(...), setting)
  if (!is.null(cases)) {
    given$cases <- reticulate::r_to_py(lapply(cases, unwrapped, kind = "hc_method", argument = "cases"))
  }
  people <- unwrapped(data, "hc_population", "data")
  found <- asked(called(hc()$compare, c(list(people), given)))
  tables <- found$tables
  names <- listed(reticulate::import_builtins(convert = FALSE)$list(tables$keys()), character())
  made <- lapply(names, function(name) from_polars(tables$get(name)))
  names(made) <- names
  structure(made, class = "hc_tables", object = found)
}

findings_of <- function(evaluation) {
  found <- reticulate::iterate(evaluation, identity)
  tables <- lapply(found, function(one) from_polars(one$table))
  names(tables) <- vapply(found, function(one) reticulate::py_to_r(one$name), "")
  left <- reticulate::iterate(evaluation$not_computed, identity)
  why <- vapply(left, function(one) reticulate::py_to_r(one$why), "")
  names(why) <- vapply(left, function(one) reticulate::py_to_r(one$name), "")
  structure(tables, class = "hc_tables", not_computed = why)
}

# What is published, one row for each count: places are text, attributes are factors.
as.data.frame.hc_release <- function(x, row.names = NULL, optional = FALSE, ...,
                                     level = NULL, tidy = TRUE) {
  release <- x$object
  if (is.null(level)) level <- reticulate::py_to_r(release$finest)
  frame <- asked(release$to_polars(level, tidy = tidy))
  attributes <- reticulate::iterate(release$domain$schema$attributes, identity)
  factors <- lapply(attributes, function(one) unlist(reticulate::py_to_r(one$levels)))
  names(factors) <- vapply(attributes, function(one) reticulate::py_to_r(one$name), "")
  from_polars(frame, factors)
}

summary.hc_release <- function(object, ...) {
  listed(asked(object$object$guarantee$sentences()), character())
}

# What a function of Python is given: vectors become lists, factors their levels.
argument <- function(x) {
  if (inherits(x, "hc_object")) return(x$object)
  if (is.data.frame(x)) return(asked(to_polars(x)))
  if (is.factor(x)) return(as.list(levels(x)))
  if (is.list(x)) return(reticulate::r_to_py(lapply(x, argument)))
  if (is.numeric(x)) x <- whole(x)
  if (!is.null(names(x))) return(reticulate::r_to_py(as.list(x)))
  if (length(x) == 1) x else as.list(x)
}

# A setting of a method: numbers are the decimals they are written as, so that losses are exact.
setting <- function(x) {
  if (is.numeric(x)) {
    made <- lapply(x, function(one) if (one == trunc(one)) as.integer(one) else plain(one))
    return(if (length(made) == 1) made[[1]] else made)
  }
  argument(x)
}

whole <- function(x) {
  if (all(x == trunc(x)) && all(abs(x) <= .Machine$integer.max)) as.integer(x) else x
}

print.hc_tables <- function(x, ...) {
  for (name in names(x)) {
    cat(sprintf("$%s: %d rows of %s\n", name, nrow(x[[name]]),
                paste(names(x[[name]]), collapse = ", ")))
  }
  for (name in names(attr(x, "not_computed"))) {
    cat(sprintf("%s: not computed, because %s\n", name, attr(x, "not_computed")[[name]]))
  }
  invisible(x)
}
