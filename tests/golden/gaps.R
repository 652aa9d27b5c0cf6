# Smooths where no row sees a part of the curve, and a curve beside slopes of a factor, of mgcv's gam(method = "REML"), with
# which tests/statistics/test_smooths.py compares.
# Run in this folder: Rscript gaps.R (R 4.2, mgcv 1.8-41, jsonlite); writes gaps.csv and gaps.json.
library(jsonlite)
library(mgcv)

set.seed(45)
n <- 160
rows <- data.frame(
  x = round(c(runif(n / 2, 0, 1), runif(n / 2, 6, 7)), 2),
  z = sample(c(0, 1, 2, 3, 4, 12, 13, 14), n, TRUE),
  w = round(rnorm(n, 1), 2),
  f = sample(c("a", "b", "c"), n, TRUE)
)
rows$f[rows$f == "a" & rows$x > 6] <- "b"
wave <- sin(5 * rows$x)
rows$y <- round(wave * (1 + rows$w) + 0.1 * rows$z + 0.3 * (rows$f == "b") * rows$x + 0.4 * rnorm(n), 3)
rows$late <- rbinom(n, 1, plogis(2 * wave + 0.1 * rows$z - 0.5))
rows$hits <- rpois(n, exp(0.8 * wave * cos(rows$z / 4) + 0.5))
write.csv(rows, "gaps.csv", row.names = FALSE, quote = FALSE)
rows$f <- factor(rows$f)
rows$slope_of_b <- (rows$f == "b") * rows$x
rows$slope_of_c <- (rows$f == "c") * rows$x
between <- data.frame(
  x = seq(0, 7, length.out = 15), z = c(0, 5, 8, 11, 14), w = 1.5, f = factor(c("a", "b", "c"), levels = c("a", "b", "c"))
)
between$slope_of_b <- (between$f == "b") * between$x
between$slope_of_c <- (between$f == "c") * between$x

exactly <- gam.control(
  epsilon = 1e-14, maxit = 500,
  newton = list(conv.tol = 1e-12, maxNstep = 5, maxSstep = 2, maxHalf = 60, use.svd = FALSE)
)
described <- function(formula, family = gaussian, knots = NULL) {
  environment(formula) <- environment()
  fit <- suppressWarnings(gam(formula, family, rows, knots = knots, method = "REML", control = exactly))
  predicted <- predict(fit, between, se.fit = TRUE)
  lp <- predict(fit, between, type = "lpmatrix")
  # As effects.csv has the curve, of the first level and of the second.
  along <- seq(min(rows$x), max(rows$x), length.out = 101)
  curves <- lapply(c("a", "b"), function(level) {
    points <- data.frame(x = along, z = 0, w = 0, f = level, slope_of_b = (level == "b") * along, slope_of_c = 0)
    steps <- predict(fit, points, type = "lpmatrix")
    steps <- sweep(steps, 2, steps[which.min(abs(along - mean(rows$x))), ])
    list(effect = as.vector(steps %*% coef(fit)), std_error = sqrt(rowSums((steps %*% fit$Vp) * steps)))
  })
  tests <- summary(fit)
  # The first correction for estimated smoothing parameters, as in smooths.R.
  free <- fit$Vp
  if (fit$scale.estimated) {
    moved <- sapply(seq_along(fit$sp), function(j) {
      step <- exp(1e-4 * (seq_along(fit$sp) == j))
      at <- function(sp) coef(gam(formula, family, rows, knots = knots, method = "REML", sp = sp))
      (at(fit$sp * step) - at(fit$sp / step)) / 2e-4
    })
    smooths <- seq_along(fit$sp)
    free <- free + moved %*% solve(fit$outer.info$hess)[smooths, smooths] %*% t(moved)
  }
  list(
    eta = as.vector(predicted$fit), std_error = as.vector(predicted$se.fit),
    unconditional = sqrt(rowSums((lp %*% free) * lp)),
    curves = curves,
    edf = as.vector(tests$s.table[, 1]), rank = as.vector(tests$s.table[, 2]), p_value = as.vector(tests$s.table[, 4]),
    estimate = as.vector(tests$p.table[, 1]), error = as.vector(tests$p.table[, 2])
  )
}
fits <- list(
  p_splines = described(y ~ s(x, bs = "ps", k = 20)),
  p_splines_poisson = described(hits ~ s(x, bs = "ps", k = 18) + f, poisson),
  p_splines_by = described(late ~ f + s(x, by = f, bs = "ps", k = 12), binomial),
  p_splines_varying = described(y ~ s(x, by = w, bs = "ps", k = 15)),
  surface = described(y ~ te(x, z, bs = c("ps", "ps"), k = c(8, 6))),
  surface_poisson = described(hits ~ te(x, z, bs = c("cr", "ps"), k = c(5, 7)), poisson),
  periodic = described(y ~ s(x, bs = "cc", k = 12), knots = list(x = c(0, 8))),
  thin_plates = described(y ~ s(x, bs = "tp", k = 12) + s(z, bs = "ps", k = 8)),
  slopes = described(y ~ f + slope_of_b + slope_of_c + s(x, bs = "cr", k = 8)),
  slopes_alone = described(late ~ slope_of_b + slope_of_c + s(x, bs = "ps", k = 12), binomial)
)
write(toJSON(list(between = as.list(between[c("x", "z", "w", "f")]), fits = fits), digits = NA, auto_unbox = TRUE), "gaps.json")
