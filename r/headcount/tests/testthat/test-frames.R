test_that("a data frame crosses to Python and back", {
  skip_without_headcount()
  data <- data.frame(
    text = c("a", NA, "\u00fc\u00df", "a"), whole = c(1L, NA, -3L, 0L), part = c(0.5, NA, 1e300, -2),
    yes = c(TRUE, NA, FALSE, TRUE), group = factor(c("y", "x", NA, "y"), levels = c("y", "x", "z"))
  )
  back <- headcount:::from_polars(headcount:::to_polars(data), list(group = levels(data$group)))
  expect_identical(back$text, data$text)
  expect_identical(back$whole, data$whole)
  expect_identical(back$part, data$part)
  expect_identical(back$yes, c("TRUE", NA, "FALSE", "TRUE"))
  expect_identical(back$group, data$group)
})

test_that("a data frame without rows crosses too", {
  skip_without_headcount()
  data <- data.frame(a = character(), b = integer())
  back <- headcount:::from_polars(headcount:::to_polars(data))
  expect_identical(dim(back), c(0L, 2L))
})

test_that("a column of lists is refused", {
  skip_without_headcount()
  data <- data.frame(a = 1:2)
  data$b <- list(1, 2)
  expect_error(hc_read(data), "column 'b': found a column of lists", class = "InputError")
})

test_that("numbers are the decimals that are written", {
  expect_identical(headcount:::plain(c(0.1, 2, 1e-5, 0.125)), c("0.1", "2", "0.00001", "0.125"))
})
