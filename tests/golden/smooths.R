# Penalised smooths and random effects of mgcv's gam(method = "REML"), with which tests/statistics/test_smooths.py compares.
# Run in this folder: Rscript smooths.R (R 4.2, mgcv 1.8-41, jsonlite); writes smooths.csv and smooths.json.
library(jsonlite)
library(mgcv)

set.seed(38)
n <- 600
shown <- 40
rows <- data.frame(
  hour = round(runif(n, 0, 24), 1),
  wind = round(rgamma(n, 2, 0.5), 2),
  carrier = sample(c("AA", "B6", "DL"), n, TRUE),
  plane = sample(sprintf("N%02d", 1:25), n, TRUE),
  seats = sample(5:20, n, TRUE),
  trips = sample(1:4, n, TRUE),
  miles = round(runif(n, 0.5, 2), 3)
)
curve <- sin(rows$hour / 4) + c(AA = 0, B6 = 0.3, DL = -0.2)[rows$carrier]
of_plane <- setNames(rnorm(25, 0, 0.5), sprintf("N%02d", 1:25))[rows$plane]
rows$delay <- round(curve + of_plane + 0.7 * rnorm(n), 4)
rows$late <- rbinom(n, 1, plogis(1.2 * curve - 0.3))
rows$events <- rbinom(n, rows$seats, plogis(0.6 * curve - 0.3))
rows$bumps <- rpois(n, exp(0.4 * curve + 0.8))
rows$cost <- round(rgamma(n, 3, 3 / exp(0.5 * curve + 1)), 4) + 0.0001
rows$waits <- rnbinom(n, size = 2.5, mu = exp(0.5 * curve + 1))
rows$flat <- round(0.2 * rows$hour + rnorm(n), 4)
slope <- setNames(rnorm(25, 0.1, 0.05), sprintf("N%02d", 1:25))[rows$plane]
rows$climb <- round(of_plane + slope * rows$hour + rnorm(n), 4)
surface <- sin(rows$hour / 4) * log1p(rows$wind) + 0.3 * cos(3 * rows$miles)
rows$gusts <- round(surface + 0.5 * rnorm(n), 4)
rows$fails <- rbinom(n, 1, plogis(1.5 * surface - 0.3))
rows$hits <- rpois(n, exp(0.6 * surface + 0.5))
# Slopes of a number that are a curve or a surface.
rows$wet <- rbinom(n, 1, 0.4)
steep <- 0.3 * cos(rows$hour / 5)
rows$gain <- round(sin(rows$hour / 4) + steep * rows$wind + rows$wet * sin(rows$hour / 6) + 0.7 * rnorm(n), 4)
rows$slips <- rbinom(n, 1, plogis(1.2 * steep * rows$wind - 0.3))
rows$shots <- rpois(n, exp(0.6 * steep * rows$wind + 0.5))
write.csv(rows, "smooths.csv", row.names = FALSE, quote = FALSE)
# Two numbers in the unit in which s(x, z) of tfglm has them.
points <- scale(unique(rows[c("hour", "wind")]), scale = FALSE)
unit <- sqrt(mean(rowSums(points^2)))
rows$east <- rows$hour / unit
rows$north <- rows$wind / unit
rows$carrier <- factor(rows$carrier)
rows$plane <- factor(rows$plane)

exactly <- gam.control(
  epsilon = 1e-14, maxit = 500,
  newton = list(conv.tol = 1e-12, maxNstep = 5, maxSstep = 2, maxHalf = 60, use.svd = FALSE)
)
fitted_by <- function(formula, family = gaussian, weights = rep(1, n), knots = NULL) {
  environment(formula) <- environment()
  at <- function(sp, control = exactly) {
    # At a smoothing parameter that runs to infinity mgcv's last step fails, and it warns.
    suppressWarnings(
      gam(formula, family, rows, weights = weights, knots = knots, method = "REML", control = control, sp = sp)
    )
  }
  fit <- at(NULL)
  fit$moved <- sapply(seq_along(fit$sp), function(j) {
    step <- exp(1e-4 * (seq_along(fit$sp) == j))
    fixed <- gam.control(epsilon = 1e-12, maxit = 50)
    (coef(at(fit$sp * step, fixed)) - coef(at(fit$sp / step, fixed))) / 2e-4
  })
  fit
}

fits <- list(
  gaussian = fitted_by(delay ~ s(hour, bs = "cr") + s(wind, bs = "cr", k = 6) + carrier),
  weights = fitted_by(delay ~ s(hour, bs = "cr"), weights = rows$trips),
  p_splines = fitted_by(bumps ~ s(hour, bs = "ps", k = 20) + carrier, poisson),
  offset = fitted_by(bumps ~ s(hour, bs = "cr") + offset(log(miles)), poisson),
  binomial = fitted_by(late ~ s(hour, bs = "cr", k = 12) + carrier, binomial),
  trials = fitted_by(cbind(events, seats - events) ~ s(hour, bs = "cr"), binomial),
  probit = fitted_by(late ~ s(hour, bs = "cr"), binomial("probit")),
  gamma = fitted_by(cost ~ s(hour, bs = "cr"), Gamma("log")),
  negative_binomial = fitted_by(waits ~ s(hour, bs = "cr"), negbin(2.5)),
  by = fitted_by(delay ~ carrier + s(hour, by = carrier, bs = "cr", k = 8)),
  random = fitted_by(delay ~ s(hour, bs = "cr") + s(plane, bs = "re")),
  random_binomial = fitted_by(events / seats ~ s(hour, bs = "cr") + s(plane, bs = "re"), binomial, weights = rows$seats),
  logarithm = fitted_by(delay ~ s(log1p(wind), bs = "cr", k = 5)),
  periodic = fitted_by(late ~ s(hour, bs = "cc", k = 8) + carrier, binomial, knots = list(hour = c(0, 24))),
  straight = fitted_by(flat ~ s(hour, bs = "cr")),
  two_random = fitted_by(late ~ s(hour, bs = "cr") + s(plane, bs = "re") + s(carrier, bs = "re"), binomial),
  weak = fitted_by(
    cost ~ s(wind, bs = "cc", k = 6) + s(plane, bs = "re") + s(carrier, bs = "re"), Gamma("log"),
    knots = list(wind = c(0, 20))
  ),
  slopes = fitted_by(climb ~ hour + s(plane, bs = "re") + s(plane, hour, bs = "re")),
  given = fitted_by(delay ~ s(hour, bs = "cr", sp = 0.5) + s(wind, bs = "cr", k = 6) + carrier),
  surface = fitted_by(gusts ~ te(hour, wind)),
  surface_beside = fitted_by(gusts ~ te(hour, wind, k = c(6, 5)) + s(miles, bs = "cr") + carrier),
  surface_binomial = fitted_by(fails ~ te(hour, wind), binomial),
  surface_poisson = fitted_by(hits ~ te(hour, wind, bs = c("ps", "cr"), k = c(7, 4)) + offset(log(miles)), poisson),
  surface_periodic = fitted_by(
    hits ~ te(hour, wind, bs = c("cc", "cr"), k = c(6, 5)), poisson, knots = list(hour = c(0, 24))
  ),
  surface_flat = fitted_by(late ~ te(wind, miles, k = 4), binomial),
  thin_plates = fitted_by(delay ~ s(hour, bs = "tp") + s(wind, bs = "tp", k = 6) + carrier),
  thin_plates_binomial = fitted_by(late ~ s(hour, bs = "tp", k = 15) + carrier, binomial),
  thin_plates_by = fitted_by(bumps ~ carrier + s(hour, by = carrier, bs = "tp", k = 8), poisson),
  isotropic = fitted_by(gusts ~ s(east, north)),
  isotropic_binomial = fitted_by(fails ~ s(east, north, k = 12) + s(miles, bs = "cr") + carrier, binomial),
  isotropic_by = fitted_by(gusts ~ carrier + s(east, north, by = carrier, k = 10)),
  surface_of_three = fitted_by(gusts ~ te(hour, log1p(wind), miles, k = c(5, 4, 3))),
  varying = fitted_by(gain ~ s(hour, bs = "cr") + s(hour, by = wind, bs = "cr", k = 8) + carrier),
  varying_twice = fitted_by(gain ~ s(hour, bs = "cr") + s(hour, by = wind, bs = "cr") + s(hour, by = wet, bs = "cr")),
  varying_binomial = fitted_by(slips ~ s(hour, by = wind, bs = "cr") + carrier, binomial),
  varying_poisson = fitted_by(shots ~ s(hour, by = wind, bs = "ps", k = 9) + offset(log(miles)), poisson),
  varying_periodic = fitted_by(gain ~ s(hour, by = wind, bs = "cc", k = 8), knots = list(hour = c(0, 24))),
  varying_plates = fitted_by(gain ~ s(plane, bs = "re") + s(hour, by = wind, bs = "tp", k = 8)),
  varying_isotropic = fitted_by(gusts ~ s(east, north, by = miles, k = 12)),
  varying_surface = fitted_by(gusts ~ te(hour, wind, by = miles)),
  varying_straight = fitted_by(flat ~ s(hour, by = miles, bs = "cr")),
  interaction = fitted_by(gusts ~ s(hour, bs = "cr") + s(wind, bs = "cr") + ti(hour, wind)),
  interaction_poisson = fitted_by(
    hits ~ s(hour, bs = "cr") + s(wind, bs = "cr") + ti(hour, wind, bs = c("ps", "cr"), k = c(7, 4)) + carrier, poisson
  ),
  interaction_periodic = fitted_by(
    fails ~ s(wind, bs = "cr") + ti(hour, wind, bs = c("cc", "cr"), k = c(6, 5)), binomial, knots = list(hour = c(0, 24))
  )
)

# The covariance with estimated smoothing parameters, without the second correction of gam, which depends on the order of
# coefficients (bam leaves it out, too).
smoothing <- function(fit) {
  all <- if (is.null(fit$full.sp)) fit$sp else fit$full.sp
  of_unit <- unlist(lapply(fit$smooth, function(each) rep(if ("east" %in% each$term) unit else 1, length(each$S))))
  log(all * of_unit^2 / unlist(lapply(fit$smooth, function(each) each$S.scale)))
}
unconditional <- function(fit) {
  is_estimated <- unlist(lapply(fit$smooth, function(each) rep(all(each$sp < 0), length(each$S))))
  free <- is_estimated & smoothing(fit) < 15
  if (!any(free)) return(fit$Vp)
  of_lambda <- fit$moved[, free[is_estimated], drop = FALSE]
  hessian <- fit$outer.info$hess
  of_phi <- if (fit$scale.estimated) nrow(hessian) else NULL
  estimated <- free[is_estimated]
  inverse <- solve(hessian[c(which(estimated), of_phi), c(which(estimated), of_phi)])
  smooths <- seq_len(sum(free))
  fit$Vp + of_lambda %*% inverse[smooths, smooths] %*% t(of_lambda)
}
described <- function(fit) {
  predicted <- predict(fit, rows[1:shown, ], se.fit = TRUE)
  tests <- summary(fit)
  free <- unconditional(fit)
  lp <- predict(fit, rows[1:shown, ], type = "lpmatrix")
  list(
    eta = as.vector(predicted$fit),
    std_error = as.vector(predicted$se.fit),
    unconditional = sqrt(rowSums((lp %*% free) * lp)),
    unconditional_of_gam = as.vector(predict(fit, rows[1:shown, ], se.fit = TRUE, unconditional = TRUE)$se.fit),
    # gam has the same limit.
    edf_corrected = min(sum(free * crossprod(fit$R)) / fit$sig2, sum(fit$edf1)),
    aic = AIC(fit),
    # gam divides each penalty by S.scale.
    log_lambda = as.vector(smoothing(fit)),
    edf = vapply(fit$smooth, function(each) sum(fit$edf[each$first.para:each$last.para]), 0),
    rank = as.vector(tests$s.table[, 2]),
    p_value = as.vector(tests$s.table[, 4]),
    parametric = as.vector(tests$p.table[, 4]),
    scale = fit$sig2,
    reml = as.vector(fit$gcv.ubre),
    df_residual = fit$df.residual
  )
}
# Theta is estimated with the smoothing parameters.
with_theta <- function(formula) {
  fit <- gam(formula, nb(), rows, method = "REML", control = exactly)
  predicted <- predict(fit, rows[1:shown, ], se.fit = TRUE)
  list(
    theta = fit$family$getTheta(TRUE), eta = as.vector(predicted$fit), std_error = as.vector(predicted$se.fit),
    edf = vapply(fit$smooth, function(each) sum(fit$edf[each$first.para:each$last.para]), 0),
    log_lambda = as.vector(smoothing(fit)), aic = AIC(fit)
  )
}
of_theta <- list(
  s = with_theta(waits ~ s(hour, bs = "cr") + carrier),
  random = with_theta(waits ~ s(hour, bs = "cr") + s(plane, bs = "re") + s(carrier, bs = "re"))
)
beyond <- data.frame(hour = c(-3, 0, 24, 30))
splines <- lapply(
  list(cr = "cr", ps = "ps", tp = "tp"),
  function(basis) {
    fit <- fitted_by(as.formula(sprintf("delay ~ s(hour, bs = '%s')", basis)))
    as.vector(predict(fit, beyond))
  }
)
# The difference between two points of a surface, with its error.
step <- predict(fits$surface, data.frame(hour = c(20, 12), wind = c(8, 3)), type = "lpmatrix")
step <- step[1, ] - step[2, ]
step_on_plates <- predict(
  fits$isotropic, data.frame(east = c(20, 12) / unit, north = c(8, 3) / unit), type = "lpmatrix"
)
step_on_plates <- step_on_plates[1, ] - step_on_plates[2, ]
# The slope of wind along hour, with its error.
along <- c(2, 8, 21)
slope_along <- predict(fits$varying, data.frame(hour = along, wind = 1, carrier = "AA"), type = "lpmatrix") -
  predict(fits$varying, data.frame(hour = along, wind = 0, carrier = "AA"), type = "lpmatrix")
far <- data.frame(hour = c(-3, 24, 30, 12), wind = c(3, 40, -1, 20))
components <- function(fit) {
  of_fit <- gam.vcomp(fit, rescale = TRUE)
  list(std_dev = of_fit[2, 1], lower = of_fit[2, 2], upper = of_fit[2, 3])
}
# The mean over all planes, and its variance.
of_new <- function(fit, columns) {
  predicted <- predict(fit, rows[1:shown, ], se.fit = TRUE, exclude = columns)
  list(eta = as.vector(predicted$fit), variance = as.vector(predicted$se.fit^2))
}
write(
  toJSON(
    list(
      fits = lapply(fits, described), theta = of_theta, beyond = beyond$hour, splines = splines,
      random = components(fits$random), random_binomial = components(fits$random_binomial),
      slopes = components(fits$slopes),
      far = c(
        as.list(far),
        list(
          eta = as.vector(predict(fits$surface, far)),
          plates = as.vector(predict(fits$isotropic, data.frame(east = far$hour / unit, north = far$wind / unit)))
        )
      ),
      slope = list(
        hour = along, effect = as.vector(slope_along %*% coef(fits$varying)),
        std_error = sqrt(rowSums((slope_along %*% fits$varying$Vp) * slope_along))
      ),
      step_on_plates = list(
        effect = sum(step_on_plates * coef(fits$isotropic)),
        std_error = sqrt(sum(step_on_plates * (fits$isotropic$Vp %*% step_on_plates)))
      ),
      step = list(effect = sum(step * coef(fits$surface)), std_error = sqrt(sum(step * (fits$surface$Vp %*% step)))),
      new = list(
        random = of_new(fits$random, "s(plane)"), random_binomial = of_new(fits$random_binomial, "s(plane)"),
        slopes = of_new(fits$slopes, c("s(plane)", "s(plane,hour)"))
      )
    ),
    digits = NA, auto_unbox = TRUE
  ),
  "smooths.json"
)
