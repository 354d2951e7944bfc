# Data frames of R become frames of polars, and back. Values travel as plain lists, which every
# version of reticulate knows how to convert, whatever the versions of numpy and pandas are.

to_polars <- function(data) {
  pl <- py_module("polars")
  columns <- lapply(names(data), function(name) column_to_polars(pl, name, data[[name]]))
  pl$DataFrame(unname(columns))
}

column_to_polars <- function(pl, name, x) {
  if (inherits(x, c("Date", "POSIXt"))) x <- format(x)
  if (is.list(x) || !is.null(dim(x))) {
    stop_hc(sprintf("data: column %s: found a column of lists, expected one value in each row",
                    sQuote(name, FALSE)), kind = "InputError")
  }
  # Each different value crosses once, and rows as numbers.
  values <- if (is.factor(x)) levels(x) else unique(unclass(x))
  rows <- if (is.factor(x)) as.integer(x) else match(unclass(x), values)
  rows[is.na(rows)] <- 0L
  rows[rows > 0L & is.na(values)[pmax(rows, 1L)]] <- 0L
  known <- if (is.numeric(values)) as.numeric(values) else as.character(values)
  whole <- is.numeric(values) && all(is.na(values) | (values == trunc(values) & abs(values) < 2^53))
  known[is.na(known)] <- if (is.numeric(known)) 0 else ""
  if (is.logical(x)) known <- as.character(values)
  kind <- if (whole) pl$Int64 else if (is.numeric(values)) pl$Float64 else pl$String
  kept <- pl$Series("values", as.list(known), strict = FALSE, dtype = kind)
  at <- pl$Series("rows", as.list(as.integer(rows - 1L)), dtype = pl$Int64)
  at <- at$set(at$lt(0L), NULL)
  kept$gather(at)$alias(name)
}

from_polars <- function(frame, factors = list()) {
  names <- reticulate::py_to_r(frame$columns)
  columns <- lapply(names, function(name) {
    series <- frame$get_column(name)
    column_from_polars(series, factors[[name]])
  })
  names(columns) <- names
  height <- reticulate::py_to_r(frame$height)
  structure(columns, class = "data.frame", row.names = .set_row_names(height))
}

column_from_polars <- function(series, levels = NULL) {
  pl <- py_module("polars")
  missing <- listed(series$is_null()$to_list(), logical())
  type <- as.character(reticulate::import_builtins()$str(series$dtype))
  if (grepl("^(U?Int|Float|Decimal)", type)) {
    x <- listed(series$cast(pl$Float64)$fill_null(0)$to_list(), double())
    if (grepl("Int", type) && all(abs(x) <= .Machine$integer.max)) x <- as.integer(x)
  } else if (type == "Boolean") {
    x <- listed(series$fill_null(FALSE)$to_list(), logical())
  } else {
    x <- listed(series$cast(pl$String)$fill_null("")$to_list(), character())
  }
  x[missing] <- NA
  if (is.null(levels)) x else factor(x, levels = levels)
}

# A list of Python as a vector of R: an empty one has no type of its own.
listed <- function(values, empty) {
  found <- reticulate::py_to_r(values)
  if (length(found)) unlist(found) else empty
}
