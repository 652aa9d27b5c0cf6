# Joint tests of hypotheses and comparisons of all levels by R, with which tests/statistics/test_comparisons.py compares.
# Run in this folder: Rscript comparisons.R (R 4.2, car, emmeans, sandwich, jsonlite); reads sandwich.csv, writes comparisons.json.
suppressPackageStartupMessages({
  library(car)
  library(emmeans)
  library(sandwich)
  library(jsonlite)
})
rows <- read.csv("sandwich.csv")
rows$side <- ifelse(rows$plane %% 3 == 0, "in", "out")
exactly <- list(epsilon = 1e-14, maxit = 100)
fits <- list(
  gaussian = lm(delay ~ carrier * side + hour + wind, rows),
  binomial = glm(late ~ carrier * side + hour + wind, binomial, rows, control = exactly),
  poisson = glm(count ~ carrier + side + hour + wind, poisson, rows, control = exactly)
)
alike <- c("carrierB6 = 0", "carrierDL - carrierUA = 0")
valued <- c("hour = 0.25", "carrierB6 + 2 * wind = 0.1", "carrierDL = 0")
tested <- function(fit, hypothesis, ...) {
  test <- if (inherits(fit, "glm")) {
    linearHypothesis(fit, hypothesis, test = "Chisq", ...)
  } else {
    linearHypothesis(fit, hypothesis, test = "F", ...)
  }
  as.list(unlist(test[2, ]))
}
described <- function(fit) {
  means <- emmeans(fit, "carrier")
  compared <- function(adjust) as.data.frame(summary(pairs(means), adjust = adjust, infer = TRUE))
  tukey <- compared("tukey")
  names(tukey) <- c("contrast", "estimate", "std_error", "df", "ci_lower", "ci_upper", "ratio", "p")
  list(
    alike = tested(fit, alike),
    valued = tested(fit, valued),
    robust = tested(fit, alike, vcov. = vcovHC(fit, type = "HC1")),
    tukey = as.list(tukey[c("estimate", "std_error", "ci_lower", "ci_upper", "ratio", "p")]),
    holm = compared("holm")$p.value,
    none = compared("none")$p.value
  )
}
# One term left out after the other; F where the dispersion is estimated: anova's by Pearson, drop1's by the deviance.
dropped <- function(fit) {
  f <- !(fit$family$family %in% c("binomial", "poisson"))
  table <- drop1(fit, test = if (f) "F" else "Chisq")
  without <- lapply(rownames(table)[-1], function(term) {
    smaller <- update(fit, as.formula(paste(". ~ . -", term)))
    both <- anova(smaller, fit, test = if (f) "F" else "Chisq")
    list(df = both$Df[2], deviance = deviance(smaller), aic = AIC(smaller), f = both$F[2],
         p = both[[if (f) "Pr(>F)" else "Pr(>Chi)"]][2], drop1_aic = table[term, "AIC"],
         drop1_f = if (f) table[term, "F value"])
  })
  names(without) <- rownames(table)[-1]
  without
}
glm_of <- function(formula, family) {
  do.call("glm", list(formula = formula, family = family, data = quote(rows), control = exactly))
}
rows$positive <- exp(rows$delay / 4)
drops <- list(
  binomial = dropped(glm_of(late ~ carrier * side + hour + wind, binomial)),
  poisson = dropped(glm_of(count ~ carrier + side + hour + wind, poisson)),
  quasi = dropped(glm_of(count ~ carrier + side + hour + wind, quasipoisson)),
  gaussian = dropped(glm_of(delay ~ carrier * side + hour + wind, gaussian)),
  gamma = dropped(glm_of(positive ~ carrier + hour, Gamma("log"))),
  one = dropped(glm_of(late ~ carrier, binomial))
)
of <- function(package) as.character(packageVersion(package))
versions <- list(R = as.character(getRversion()), car = of("car"), emmeans = of("emmeans"))
q <- c(0.5, 2, 4, 6, 9)
range_tails <- lapply(c(8, 20, 1e6), function(df) sapply(c(3, 12, 40), function(k) ptukey(q, k, df, lower.tail = FALSE)))
said <- c(list(versions = versions, range_tails = range_tails, dropped = drops), suppressMessages(lapply(fits, described)))
write_json(said, "comparisons.json", digits = NA, auto_unbox = TRUE)
