test_that("the counts of an unprotected release are those of the data frame", {
  skip_without_headcount()
  data <- town()
  release <- hc_protect(people_of(data), "identity")
  counts <- as.data.frame(release)
  expect_s3_class(counts$sex, "factor")
  expect_identical(levels(counts$sex), c("female", "male"))
  own <- aggregate(
    list(n = rep(1L, nrow(data))),
    list(town = data$town, sex = as.character(data$sex), age = findInterval(data$age, c(0, 18, 65))),
    sum
  )
  counts$age <- as.integer(counts$age)
  counts$sex <- as.character(counts$sex)
  both <- merge(own, counts, by = c("town", "sex", "age"), all.x = TRUE)
  expect_identical(both$n.x, both$n.y)
  expect_identical(sum(counts$n), nrow(data))
})

test_that("a seed gives the release of Python, and is said not to be private", {
  skip_without_headcount()
  people <- people_of()
  first <- hc_protect(people, "geometric", epsilon = 0.5, seed = 3)
  again <- hc_protect(people, hc_method("geometric", epsilon = "1/2"), seed = 3)
  expect_identical(as.data.frame(first), as.data.frame(again))
  expect_match(summary(first)[1], "NOT PRIVATE")
  python <- headcount:::hc()
  direct <- python$protect(people$object, python$Geometric(epsilon = "1/2"), seed = 3L)
  n <- unlist(reticulate::py_to_r(direct$to_polars("town", tidy = TRUE)$get_column("n")$to_list()))
  expect_identical(as.data.frame(first)$n, as.integer(n))
})

test_that("a release is evaluated, attacked and compared", {
  skip_without_headcount()
  people <- people_of()
  release <- hc_protect(people, "identity")
  found <- hc_evaluate(release, people)
  expect_true(all(found$error$mean_absolute == 0))
  expect_gt(length(attr(found, "not_computed")), 0)
  expect_error(hc_attack(release, people, "no-such-attack"), "no-such-attack", class = "hc_error")
  cases <- list(
    noise = hc_method("geometric", epsilon = 1), rounded = hc_method("rounding", base = 5)
  )
  compared <- hc_compare(people, cases = cases, replicates = 1)
  expect_true(all(c("noise", "rounded") %in% compared$cases$case))
})

test_that("what Python refuses is a condition with the same text", {
  skip_without_headcount()
  people <- people_of()
  expect_error(hc_protect(people, "geometric", epsilon = -1), "found -1, expected a number above 0",
               class = "PrivacyError")
  expect_error(hc_protect(people, "laplac", epsilon = 1), "found 'laplac', expected one of",
               class = "ConfigError")
  expect_error(hc_read("nobody.csv"), "nobody.csv: found no such file", class = "InputError")
  expect_error(hc_protect(town(), "geometric"), "data: found data.frame, expected people")
  expect_error(hc_use("no/such/python"), "found no file 'no/such/python'")
})
