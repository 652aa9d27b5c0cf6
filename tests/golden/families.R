# Fits of R's glm with each family and link, with which tests/statistics/test_more_families.py compares.
# Run in this folder: Rscript families.R (R 4.2, MASS, jsonlite, mgcv, sandwich, statmod); writes families.csv and families.json.
library(jsonlite)
library(MASS)
library(mgcv)
library(sandwich)
library(statmod)

set.seed(21)
n <- 500
rows <- data.frame(
  carrier = sample(c("AA", "B6", "DL", "UA"), n, replace = TRUE, prob = c(0.4, 0.3, 0.2, 0.1)),
  hour = round(runif(n, 5, 23), 2),
  seats = sample(5:40, n, replace = TRUE),
  trips = sample(1:4, n, replace = TRUE),
  miles = round(runif(n, 0.5, 2), 3),
  day = sample(1:40, n, replace = TRUE)
)
eta <- c(AA = 0, B6 = 0.4, DL = -0.3, UA = 0.6)[rows$carrier] + 0.05 * (rows$hour - 14)
rows$late <- rbinom(n, 1, pnorm(-0.3 + eta))
rows$events <- rbinom(n, rows$seats, pnorm(-0.3 + eta))
rows$cost <- round(rgamma(n, 2, 2 / exp(1 + eta)), 4) + 0.0001
rows$speed <- round(rgamma(n, 20, 20 * (1 + 0.3 * eta + 0.4)), 5) + 0.00001
mu <- exp(0.5 + eta)
z <- rnorm(n)^2
lambda <- 4
x <- mu + mu^2 * z / (2 * lambda) - mu / (2 * lambda) * sqrt(4 * mu * lambda * z + mu^2 * z^2)
rows$wait <- round(ifelse(runif(n) <= mu / (mu + x), x, mu^2 / x), 5) + 0.00001
rows$delay <- round(exp(0.5 + eta) + rnorm(n), 4)
rows$bumps <- rnbinom(n, size = 1.7, mu = exp(0.7 + eta))
calls <- rpois(n, exp(0.1 + 0.6 * eta))
rows$fees <- round(ifelse(calls > 0, rgamma(n, 1.5 * pmax(calls, 1), 0.8), 0), 4)
write.csv(rows, "families.csv", row.names = FALSE, quote = FALSE)

exactly <- glm.control(epsilon = 1e-15, maxit = 200)

# glm.nb, whose theta is off by 1e-7 as theta.ml ends early, with theta to the last digits.
exact_nb <- function(formula, weights = rep(1, n)) {
  environment(formula) <- environment()
  first <- glm.nb(formula, rows, weights = weights, control = exactly)
  theta <- first$theta
  for (turn in 1:20) {
    fit <- glm(formula, negative.binomial(theta), rows, weights = weights, control = exactly)
    theta <- theta.ml(rows$bumps, fitted(fit), n, weights, limit = 100, eps = 1e-13)
  }
  fit$theta <- as.numeric(theta)
  fit$SE.theta <- attr(theta, "SE")
  fit$of_theta <- 1
  stopifnot(abs(fit$theta - first$theta) < 1e-6, abs(logLik(fit) - logLik(first)) < 1e-9)
  fit
}
# Dispersion and power by maximum likelihood, of the density of mgcv's ldTweedie; glm has the coefficients of a power.
exact_tweedie <- function(formula, weights = rep(1, n)) {
  environment(formula) <- environment()
  fitted_by <- function(power) glm(formula, tweedie(power, 0), rows, weights = weights, control = exactly)
  profile <- function(power) {
    mu <- fitted(fitted_by(power))
    at <- function(u) sum(vapply(1:n, function(i) ldTweedie(rows$fees[i], mu[i], power, exp(u) / weights[i])[1], 0))
    if (all(weights == 1)) at <- function(u) sum(ldTweedie(rows$fees, mu, power, exp(u))[, 1])
    optimize(at, c(-2, 2), maximum = TRUE, tol = 1e-12)
  }
  power <- optimize(function(p) profile(p)$objective, c(1.1, 1.9), maximum = TRUE, tol = 1e-12)$maximum
  h <- 1e-3
  around <- vapply(power + c(-h, 0, h), function(p) profile(p)$objective, 0)
  fit <- fitted_by(power)
  fit$power <- power
  fit$SE.power <- sqrt(-h^2 / (around[1] - 2 * around[2] + around[3]))
  fit$dispersion_of_likelihood <- exp(profile(power)$maximum)
  fit$log_likelihood <- around[2]
  fit
}

fits <- list(
  probit = glm(late ~ carrier + hour, binomial("probit"), rows, control = exactly),
  cloglog = glm(late ~ carrier + hour, binomial("cloglog"), rows, control = exactly),
  probit_trials = glm(cbind(events, seats - events) ~ carrier + hour, binomial("probit"), rows, control = exactly),
  cloglog_offset = glm(late ~ carrier + hour + offset(log(miles)), binomial("cloglog"), rows, control = exactly),
  gamma_log = glm(cost ~ carrier + hour, Gamma("log"), rows, control = exactly),
  gamma_log_weights = glm(cost ~ carrier + hour, Gamma("log"), rows, weights = trips, control = exactly),
  gamma_log_offset = glm(cost ~ carrier + hour + offset(log(miles)), Gamma("log"), rows, control = exactly),
  gamma_inverse = glm(speed ~ carrier + hour, Gamma("inverse"), rows, control = exactly),
  gamma_inverse_levels = glm(speed ~ 0 + carrier, Gamma("inverse"), rows, control = exactly),
  inverse_gaussian_log = glm(wait ~ carrier + hour, inverse.gaussian("log"), rows, control = exactly),
  inverse_gaussian_canonical = glm(speed ~ carrier + hour, inverse.gaussian(), rows, control = exactly),
  inverse_gaussian_weights = glm(wait ~ carrier + hour, inverse.gaussian("log"), rows, weights = trips, control = exactly),
  gaussian_log = glm(delay ~ carrier + hour, gaussian("log"), rows, start = c(1, 0, 0, 0, 0), control = exactly),
  negative_binomial = exact_nb(bumps ~ carrier + hour),
  negative_binomial_weights = exact_nb(bumps ~ carrier + hour, rows$trips),
  negative_binomial_offset = exact_nb(bumps ~ carrier + hour + offset(log(miles))),
  negative_binomial_given = glm(bumps ~ carrier + hour, negative.binomial(2.5), rows, control = exactly),
  tweedie_given = glm(fees ~ carrier + hour, tweedie(1.4, 0), rows, control = exactly),
  tweedie_given_weights = glm(fees ~ carrier + hour, tweedie(1.4, 0), rows, weights = trips, control = exactly),
  tweedie = exact_tweedie(fees ~ carrier + hour),
  tweedie_weights = exact_tweedie(fees ~ carrier + hour, rows$trips),
  gaussian_log_weights = glm(delay ~ carrier + hour, gaussian("log"), rows, weights = trips, start = c(1, 0, 0, 0, 0),
    control = exactly)
)

described <- function(fit) {
  # summary.glm estimates a dispersion of negative.binomial(theta), which has none.
  dispersion <- if (grepl("^Negative Binomial", fit$family$family)) 1 else summary(fit)$dispersion
  predicted <- predict(fit, type = "response", se.fit = TRUE, dispersion = dispersion)
  list(
    coefficients = as.list(coef(fit)),
    std_errors = as.list(sqrt(diag(summary.glm(fit, dispersion = dispersion)$cov.scaled))),
    dispersion = dispersion,
    theta = fit$theta,
    theta_std_error = fit$SE.theta,
    deviance = fit$deviance,
    null_deviance = fit$null.deviance,
    log_likelihood = if (is.null(fit$power)) as.numeric(logLik(fit)) else fit$log_likelihood,
    aic = if (is.null(fit$power)) AIC(fit) + if (is.null(fit$of_theta)) 0 else 2
          else 2 * (fit$rank + 2) - 2 * fit$log_likelihood,
    power = fit$power,
    power_std_error = fit$SE.power,
    dispersion_of_likelihood = fit$dispersion_of_likelihood,
    mean = unname(predicted$fit[1:5]),
    mean_std_error = unname(predicted$se.fit[1:5]),
    pearson = unname(residuals(fit, "pearson")[1:5]),
    deviance_residual = unname(residuals(fit, "deviance")[1:5]),
    leverage = unname(hatvalues(fit)[1:5]),
    robust = as.list(sqrt(diag(vcovHC(fit, type = "HC1")))),
    clustered = as.list(sqrt(diag(vcovCL(fit, cluster = rows$day, type = "HC1"))))
  )
}

# Hurdle models: the counts above 0, by pscl, with standard errors of the observed information by numDeriv, as the second
# derivatives of pscl have 5 digits.
hurdles <- lapply(c(truncated_poisson = "poisson", truncated_negative_binomial = "negbin"), function(dist) {
  fit <- pscl::hurdle(bumps ~ carrier + hour, rows, dist = dist, control = pscl::hurdle.control(reltol = 1e-16, maxit = 1e5))
  some <- rows[rows$bumps > 0, ]
  x <- model.matrix(~ carrier + hour, some)
  log_likelihood <- function(at) {
    mean <- exp(drop(x %*% at[seq_len(ncol(x))]))
    theta <- if (dist == "negbin") exp(at[ncol(x) + 1]) else 1e12
    sum(dnbinom(some$bumps, mu = mean, size = theta, log = TRUE) - log1p(-dnbinom(0, mu = mean, size = theta)))
  }
  at <- c(fit$coefficients$count, if (dist == "negbin") log(unname(fit$theta)))
  errors <- sqrt(diag(solve(-numDeriv::hessian(log_likelihood, at))))
  list(
    coefficients = as.list(fit$coefficients$count),
    std_errors = as.list(setNames(errors[seq_len(ncol(x))], colnames(x))),
    log_likelihood = log_likelihood(at),
    theta = if (dist == "negbin") unname(fit$theta),
    log_theta_std_error = if (dist == "negbin") unname(errors[ncol(x) + 1])
  )
})

made <- list(R = as.character(getRversion()), fits = lapply(fits, described), hurdles = hurdles)
write_json(made, "families.json", auto_unbox = TRUE, digits = NA, pretty = 1)
