test_that("from a file to a page for the director", {
  skip_without_headcount()
  in_folder({
    data <- town(3000)
    data$age <- c("0-17", "18-64", "65+")[findInterval(data$age, c(0, 18, 65))]
    utils::write.csv(data, "people.csv", row.names = FALSE)
    expect_message(config <- hc_init("people.csv"), "3,000 people in 3 places")
    expect_identical(config, "people.toml")
    checked <- hc_check(config)
    expect_s3_class(checked$how_far_off, "data.frame")
    expect_true(all(c("level", "query", "rmse") %in% names(checked$how_far_off)))
    expect_true(any(grepl("epsilon 1 when one person's record changes", checked$guarantee)))
    least <- hc_plan(config, within = c("town.total" = "10@0.95"))[["least loss"]]
    expect_gt(eval(parse(text = least$epsilon)), 1)
    expect_lte(subset(least$how_far_off, level == "town" & query == "total")$within, 10)
    planned <- hc_plan(config, set = c(epsilon = 2))
    expect_length(planned, 2)
    better <- planned[[2]]$how_far_off$rmse < planned[[1]]$how_far_off$rmse
    expect_true(all(better[planned[[1]]$how_far_off$rmse > 0]))
    run <- hc_protect(config)
    expect_true(dir.exists(file.path(unclass(run), "release")))
    expect_match(paste(hc_explain(run)$text, collapse = " "), "What it promises")
    expect_true("error" %in% names(hc_evaluate(run)))
  })
})

test_that("a refusal of a command is a condition", {
  skip_without_headcount()
  in_folder({
    expect_error(hc_check("nothing.toml"), "nothing.toml", class = "InputError")
  })
})
