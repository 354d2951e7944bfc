# Files and configs: what the commands of the same name do.

hc_init <- function(files, out = NULL, ..., overwrite = FALSE) {
  given <- list(...)
  options <- unlist(Map(option, names(given), given), use.names = FALSE)
  said <- command("init", path.expand(files), "--yes", option("out", out), options,
                  option("overwrite", overwrite))
  said <- from_json(said)
  message(paste(c(unlist(said$decided),
                  sprintf("%s people in %s places. Is that right?",
                          big(said$people), big(said$places))), collapse = "\n"))
  invisible(said$config)
}

hc_check <- function(config) {
  said <- from_json(command("check", path.expand(config)))
  structure(
    class = "hc_page",
    list(
      how_far_off = rows_of(said$how_far_off$rows),
      needs = said$needs,
      read = said$read,
      guarantee = unlist(said$in_words),
      remarks = unlist(said$remarks),
      text = c(unlist(said$how_far_off$in_words), unlist(said$in_words))
    )
  )
}

hc_plan <- function(config, set = NULL, within = NULL) {
  said <- command("plan", path.expand(config), option("set", set), option("within", within))
  lapply(from_json(said)$tables, function(one) {
    structure(class = "hc_page", list(how_far_off = rows_of(one$how_far_off$rows),
                                      epsilon = one$epsilon, rho = one$rho,
                                      text = unlist(one$how_far_off$in_words)))
  })
}

hc_explain <- function(runs, out = NULL, publish = FALSE) {
  said <- command("explain", path.expand(unclass(runs)), option("out", out),
                  option("publish", publish), json = FALSE)
  structure(class = "hc_page", list(text = said))
}

run_of <- function(path) {
  structure(reticulate::py_to_r(reticulate::import_builtins(convert = FALSE)$str(path)),
            class = "hc_run")
}

print.hc_run <- function(x, ...) {
  cat("<run of headcount in ", unclass(x), ">\n", sep = "")
  invisible(x)
}

print.hc_page <- function(x, ...) {
  if (!is.null(x$how_far_off)) print(x$how_far_off, row.names = FALSE)
  cat(x$text, sep = "\n")
  invisible(x)
}

# A list of records as a data frame; what is not said is missing.
rows_of <- function(rows) {
  names <- unique(unlist(lapply(rows, names)))
  columns <- lapply(names, function(name) {
    unlist(lapply(rows, function(row) if (is.null(row[[name]])) NA else row[[name]]))
  })
  names(columns) <- names
  structure(columns, class = "data.frame", row.names = .set_row_names(length(rows)))
}

big <- function(x) format(x, big.mark = ",", scientific = FALSE, trim = TRUE)
