library(testthat)
library(headcount)

test_check("headcount")
