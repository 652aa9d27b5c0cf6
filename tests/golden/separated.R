# Likelihood ratio tests by R of terms that separate rows, which all stay in both models, with which
# tests/statistics/test_comparisons.py compares.
# Run in this folder: Rscript separated.R (R 4.2, MASS, statmod, jsonlite); reads sandwich.csv, writes separated.json.
suppressPackageStartupMessages({
  library(MASS)
  library(statmod)
  library(jsonlite)
})
rows <- read.csv("sandwich.csv")
none <- rows$carrier == "UA"
rows$late[none] <- 0
rows$count[none] <- 0
# Of no carrier alone, but wherever both are 1.
rows$both <- as.numeric(rows$wind > 0.8 & rows$carrier == "DL")
rows$late2 <- ifelse(rows$both == 1, 1, read.csv("sandwich.csv")$late)
exactly <- list(epsilon = 1e-14, maxit = 200)
fitted_by <- function(formula, family) {
  suppressWarnings(do.call("glm", list(formula = formula, family = family, data = quote(rows), control = exactly)))
}
dropped <- function(fit, terms) {
  table <- suppressWarnings(drop1(fit, scope = terms))
  f <- function(term) {
    list(df = table[term, "Df"], difference = table[term, "Deviance"] - table["<none>", "Deviance"])
  }
  sapply(terms, f, simplify = FALSE)
}
said <- list(
  binomial = dropped(fitted_by(late ~ carrier + hour, binomial), "carrier"),
  one = dropped(fitted_by(late ~ carrier, binomial), "carrier"),
  quasi = dropped(fitted_by(late ~ carrier + hour, binomial), "carrier"),
  poisson = dropped(fitted_by(count ~ carrier + hour, poisson), "carrier"),
  negative_binomial = dropped(fitted_by(count ~ carrier + hour, negative.binomial(2)), "carrier"),
  tweedie = dropped(fitted_by(count ~ carrier + hour, tweedie(var.power = 1.5, link.power = 0)), "carrier"),
  across = dropped(fitted_by(late2 ~ carrier + both + hour, binomial), "both")
)
# The dispersions that F is made of are those of the rows that are left.
rest <- rows[!none, ]
said$dispersion <- list(
  quasi = summary(glm(late ~ carrier + hour, quasibinomial, rest, control = exactly))$dispersion,
  tweedie = summary(glm(count ~ carrier + hour, tweedie(var.power = 1.5, link.power = 0), rest, control = exactly))$dispersion
)
write_json(said, "separated.json", digits = NA, auto_unbox = TRUE)
