# Profile likelihood intervals by R, with which tests/statistics/test_profiles.py compares: the roots of the deviance with a coefficient
# held at a value (uniroot), and confint, which interpolates.
# Run in this folder: Rscript profiles.R (R 4.2, MASS, jsonlite); reads sandwich.csv and writes profiles.json.
suppressPackageStartupMessages({
  library(MASS)
  library(jsonlite)
})
rows <- read.csv("sandwich.csv")
rows$carrier <- factor(rows$carrier)
rows$positive <- exp(rows$delay / 4)
few <- rows[seq_len(60), ]
exactly <- glm.control(epsilon = 1e-14, maxit = 100)
x_of <- function(data) model.matrix(~ carrier + hour + wind, data)

of <- function(data, y, family, prior = rep(1, nrow(data))) {
  x <- x_of(data)
  fitted <- glm.fit(x, y, prior, family = family, control = exactly)
  known <- family$family %in% c("binomial", "poisson")
  class(fitted) <- c("glm", "lm")
  dispersion <- if (known) 1 else summary.glm(fitted)$dispersion
  cut <- if (known) qnorm(0.975) else qt(0.975, fitted$df.residual)
  ends_of <- function(direction) {
    # The last column of a basis in which the first is the combination: b = value * d + others.
    basis <- qr.Q(qr(cbind(direction)), complete = TRUE)
    d <- direction / sum(direction^2)
    others <- x %*% basis[, -1]
    estimate <- sum(direction * coef(fitted))
    zeta <- function(value) {
      held <- glm.fit(others, y, prior, offset = drop(x %*% d) * value, family = family, control = exactly,
                      mustart = fitted$fitted.values)
      sqrt(max(0, (held$deviance - fitted$deviance) / dispersion)) - cut
    }
    se <- sqrt(dispersion * drop(t(direction) %*% summary.glm(fitted)$cov.unscaled %*% direction))
    end <- function(side) uniroot(function(far) zeta(estimate + side * far), c(0.2, 8) * se, tol = 1e-12)$root * side + estimate
    c(estimate = estimate, lower = end(-1), upper = end(1))
  }
  list(hour = ends_of(c(0, 0, 0, 0, 1, 0)), levels = ends_of(c(0, 1, 0, -1, 0, 0)))
}
said <- list(
  versions = list(R = as.character(getRversion()), MASS = as.character(packageVersion("MASS"))),
  binomial = of(few, few$late, binomial()),
  poisson = of(few, few$count, poisson()),
  weighted = of(few, few$count, poisson(), few$times),
  probit = of(few, few$late, binomial("probit")),
  gaussian = of(few, few$delay, gaussian()),
  gamma = of(few, few$positive, Gamma("log"))
)
by_confint <- suppressMessages(confint(glm(late ~ carrier + hour + wind, binomial, few, control = exactly)))
said$confint <- unname(by_confint["hour", ])
write_json(lapply(said, function(each) if (is.list(each)) lapply(each, as.list) else each), "profiles.json", digits = NA,
           auto_unbox = TRUE)
