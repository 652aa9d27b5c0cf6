# Sandwich covariances of mgcv's gam(method = "REML"), with which tests/statistics/test_smooth_errors.py compares.
# Run in this folder: Rscript smooth_errors.R (R 4.2, mgcv 1.8-41, jsonlite); reads smooths.csv and writes smooth_errors.json.
library(jsonlite)
library(mgcv)

rows <- read.csv("smooths.csv")
n <- nrow(rows)
rows$carrier <- factor(rows$carrier)
rows$plane <- factor(rows$plane)
rows$day <- (seq_len(n) - 1) %/% 12
shown <- 40

exactly <- gam.control(
  epsilon = 1e-14, maxit = 500,
  newton = list(conv.tol = 1e-12, maxNstep = 5, maxSstep = 2, maxHalf = 60, use.svd = FALSE)
)
fitted_by <- function(formula, family = gaussian, weights = rep(1, n)) {
  environment(formula) <- environment()
  gam(formula, family, rows, weights = weights, method = "REML", control = exactly)
}
fits <- list(
  gaussian = fitted_by(delay ~ s(hour, bs = "cr") + s(wind, bs = "cr", k = 6) + carrier),
  weights = fitted_by(delay ~ s(hour, bs = "cr"), weights = rows$trips),
  poisson = fitted_by(bumps ~ s(hour, bs = "ps", k = 20) + carrier, poisson),
  trials = fitted_by(cbind(events, seats - events) ~ s(hour, bs = "cr"), binomial),
  gamma = fitted_by(cost ~ s(hour, bs = "cr"), Gamma("log")),
  negative_binomial = fitted_by(waits ~ s(hour, bs = "cr"), negbin(2.5)),
  random = fitted_by(delay ~ s(hour, bs = "cr") + s(plane, bs = "re")),
  surface = fitted_by(gusts ~ te(hour, wind))
)

# vcov.gam leaves prior weights out of the scores; here they are in.
scores_of <- function(fit) {
  mean <- fit$fitted.values
  slope <- fit$family$mu.eta(fit$linear.predictors)
  model.matrix(fit) * (fit$prior.weights * slope * (fit$y - mean) / fit$family$variance(mean))
}
by_row <- function(fit) {
  bread <- fit$Vp / fit$sig2
  n / (n - sum(fit$edf)) * bread %*% crossprod(scores_of(fit)) %*% bread
}
# vcov.gam has scores of rows alone; here those of a day are added, with the factor of sandwich's vcovCL(type = "HC1").
by_day <- function(fit) {
  scores <- rowsum(scores_of(fit), rows$day)
  days <- nrow(scores)
  bread <- fit$Vp / fit$sig2
  factor <- days / (days - 1) * (n - 1) / (n - sum(fit$edf))
  factor * bread %*% crossprod(scores) %*% bread + fit$Vp - fit$Ve
}
described <- function(fit) {
  lp <- predict(fit, rows[1:shown, ], type = "lpmatrix")
  error <- function(covariance) sqrt(rowSums((lp %*% covariance) * lp))
  if (all(fit$prior.weights == 1)) {
    frequentist <- vcov(fit, sandwich = TRUE, freq = TRUE)
    robust <- vcov(fit, sandwich = TRUE)
  } else {
    frequentist <- by_row(fit)
    robust <- frequentist + fit$Vp - fit$Ve
  }
  list(robust = error(robust), frequentist = error(frequentist), by_day = error(by_day(fit)))
}
writeLines(toJSON(lapply(fits, described), digits = NA, auto_unbox = TRUE, pretty = TRUE), "smooth_errors.json")
