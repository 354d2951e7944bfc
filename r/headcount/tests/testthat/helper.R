# The Python of the environment: HEADCOUNT_PYTHON, or the one that reticulate finds.
skip_without_headcount <- function() {
  python <- Sys.getenv("HEADCOUNT_PYTHON")
  if (nzchar(python)) {
    hc_use(python)
  } else if (!reticulate::py_module_available("headcount")) {
    skip("no Python with headcount: set HEADCOUNT_PYTHON")
  }
}

# Made-up people of three towns.
town <- function(people = 600) {
  n <- seq_len(people)
  data.frame(
    town = c("Ash", "Elm", "Oak")[1 + (n * 7) %% 3],
    sex = factor(c("female", "male")[1 + (n %/% 3) %% 2], levels = c("male", "female")),
    age = c(5L, 30L, 70L)[1 + (n %/% 5) %% 3],
    stringsAsFactors = FALSE
  )
}

people_of <- function(data = town()) {
  hc_read(
    data,
    geography = "town", kind = "people",
    attributes = list(sex = hc_levels("female", "male"), age = hc_bins(0, 18, 65))
  )
}

in_folder <- function(code) {
  folder <- tempfile("town-")
  dir.create(folder)
  old <- setwd(folder)
  on.exit({
    setwd(old)
    unlink(folder, recursive = TRUE)
  })
  force(code)
}
