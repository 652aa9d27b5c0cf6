# Degrees of freedom beside random effects by lmerTest, and averages for the population by emmeans and from mgcv's gam.
# Run in this folder: Rscript population.R (R 4.2, lmerTest 3.1, emmeans 1.8, mgcv 1.8, jsonlite); reads smooths.csv and writes
# population.json, with which tests/statistics/test_population.py compares.
suppressPackageStartupMessages({
  library(lmerTest)
  library(emmeans)
  library(mgcv)
  library(jsonlite)
})

rows <- read.csv("smooths.csv")
rows$plane <- factor(rows$plane)
rows$carrier <- factor(rows$carrier)
few <- subset(rows, plane %in% levels(rows$plane)[1:7])
emm_options(lmer.df = "satterthwaite")

# A linear mixed model: coefficients, the joint test of carrier by orthonormal contrasts, and the means of carriers.
linear <- function(formula, data) {
  fit <- lmer(formula, data, control = lmerControl("bobyqa", optCtrl = list(rhoend = 1e-10)))
  contrasts <- t(qr.Q(qr(contr.sum(3))))[, -1]
  names <- names(fixef(fit))
  of_carrier <- matrix(0, 2, length(names))
  of_carrier[, grep("carrier", names)] <- contrasts
  joint <- contestMD(fit, of_carrier)
  means <- as.data.frame(emmeans(fit, "carrier"))
  list(
    coefficients = data.frame(term = names, unname(coef(summary(fit)))),
    joint = list(F = joint[["F value"]], df = joint$DenDF, p = joint[["Pr(>F)"]]),
    means = means[, c("emmean", "SE", "df", "lower.CL", "upper.CL")]
  )
}

# The averages F(b, log lambda) over the rows of a gam, and their errors from the covariance of b and of log lambda. Effects u of
# planes are 0, or integrated over their normal distribution. R's gam is refitted at other lambdas for the derivatives by them.
curved <- function(formula, family, data) {
  settings <- list(formula, family, data, method = "REML", control = gam.control(epsilon = 1e-12, newton = list(conv.tol = 1e-10)))
  fit <- do.call(gam, settings)
  known <- fit$sp
  is_random <- grepl("s\\(", names(coef(fit)))
  weights <- sapply(fit$smooth, function(each) 1 / each$S.scale)
  averaged <- function(fit, how, sp = known) {
    # The standard deviation of the intercept of a plane, and of its slope of hour if there is one.
    spread <- sqrt(1 / (sp * weights))
    mean_at <- function(changed) {
      X <- predict(fit, changed, type = "lpmatrix")[, !is_random]
      eta <- drop(X %*% coef(fit)[!is_random])
      if (how == "zero") return(mean(family$linkinv(eta)))
      s <- if (length(spread) > 1) sqrt(spread[1]^2 + (spread[2] * changed$hour)^2) else rep(spread[1], nrow(changed))
      if (family$link == "log") return(mean(exp(eta + s^2 / 2)))
      integral <- function(eta, s) {
        integrate(function(z) family$linkinv(eta + s * z) * dnorm(z), -9, 9, rel.tol = 1e-10)$value
      }
      mean(mapply(integral, eta, s))
    }
    at <- function(level) mean_at(transform(data, carrier = factor(level, levels(data$carrier))))
    h <- 1e-3
    slope <- (mean_at(transform(data, hour = hour + h)) - mean_at(transform(data, hour = hour - h))) / (2 * h)
    means <- sapply(levels(data$carrier), at)
    c(slope, means[2] - means[1], means[3] - means[1], means)
  }
  result <- list()
  for (how in c("zero", "integrated")) {
    estimate <- averaged(fit, how)
    step <- 1e-4
    by_coefficient <- sapply(which(!is_random), function(place) {
      moved <- fit
      moved$coefficients[place] <- moved$coefficients[place] + step
      up <- averaged(moved, how)
      moved$coefficients[place] <- moved$coefficients[place] - 2 * step
      (up - averaged(moved, how)) / (2 * step)
    })
    by_lambda <- sapply(seq_along(fit$sp), function(place) {
      moved <- lapply(c(1, -1), function(sign) {
        sp <- fit$sp
        sp[place] <- sp[place] * exp(sign * 0.01)
        averaged(do.call(gam, c(settings, list(sp = sp))), how, sp)
      })
      (moved[[1]] - moved[[2]]) / 0.02
    })
    V <- vcov(fit)[!is_random, !is_random]
    of_lambda <- solve(fit$outer.info$hess)
    variance <- rowSums((by_coefficient %*% V) * by_coefficient) + rowSums((by_lambda %*% of_lambda) * by_lambda)
    result[[how]] <- data.frame(estimate = unname(estimate), std_error = unname(sqrt(variance)))
  }
  result
}

# Means of carriers beside a smooth: the random effects of planes are at 0.
beside <- gam(late ~ s(hour, bs = "cr") + carrier + s(plane, bs = "re"), binomial(), rows, method = "REML")
means_beside <- sapply(levels(rows$carrier), function(level) {
  X <- predict(beside, transform(rows, carrier = factor(level, levels(carrier))), type = "lpmatrix", exclude = "s(plane)")
  mu <- plogis(drop(X %*% coef(beside)))
  by_coefficient <- colMeans(mu * (1 - mu) * X)
  c(mean(mu), sqrt(drop(by_coefficient %*% vcov(beside) %*% by_coefficient)))
})

result <- list(
  beside = data.frame(estimate = means_beside[1, ], std_error = means_beside[2, ]),
  linear = list(
    intercepts = linear(delay ~ wind + carrier + (1 | plane), rows),
    slopes = linear(climb ~ hour + carrier + (hour || plane), rows),
    few = linear(climb ~ hour + carrier + (hour || plane), few),
    none = linear(flat ~ hour + carrier + (1 | plane), rows)
  ),
  curved = list(
    poisson = curved(bumps ~ hour + carrier + s(plane, bs = "re"), poisson(), rows),
    binomial = curved(late ~ hour + carrier + s(plane, bs = "re"), binomial(), rows),
    slopes = curved(bumps ~ hour + carrier + s(plane, bs = "re") + s(plane, hour, bs = "re"), poisson(), rows)
  )
)
write_json(result, "population.json", digits = NA, auto_unbox = TRUE, pretty = TRUE)
