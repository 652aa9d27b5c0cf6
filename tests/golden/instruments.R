# Two-stage least squares by R's AER with errors by sandwich, with which tests/statistics/test_instruments.py compares.
# Run in this folder: Rscript instruments.R (AER, sandwich, jsonlite); writes instruments.csv and instruments.json.
suppressMessages({library(AER); library(sandwich); library(jsonlite)})

set.seed(5)
n <- 400
d <- data.frame(
  g = sample(60, n, replace = TRUE), f1 = sample(12, n, replace = TRUE), f2 = sample(8, n, replace = TRUE),
  w = round(runif(n, 0.5, 2), 2), n = sample(3, n, replace = TRUE), c = sample(c("a", "b", "c"), n, replace = TRUE)
)
d$z1 <- round(rnorm(n) + 0.3 * rnorm(60)[d$g], 3)
d$z2 <- round(rnorm(n), 3)
d$x <- round(rnorm(n, 5, 2) + 0.1 * d$f1, 3)
u <- rnorm(n) + 0.5 * rnorm(60)[d$g]
d$d <- round(0.5 * d$z1 + 0.3 * d$z2 + 0.2 * d$x + 0.7 * u + rnorm(n) + 0.05 * d$f1, 3)
d$y <- round(4 + 2 * d$x - 1.5 * d$d + u + 0.1 * d$f1 - 0.03 * d$f2, 3)
write.csv(d, "instruments.csv", row.names = FALSE, quote = FALSE)
counted <- d[rep(seq_len(nrow(d)), d$n), ]
hc1 <- function(m) vcovHC(m, type = "HC1")
by <- function(...) function(m) vcovCL(m, cluster = d[, c(...)], type = "HC1")

entry <- function(model, covariance = NULL) {
  v <- if (is.null(covariance)) vcov(model) else covariance(model)
  shown <- c("(Intercept)", "x", "d")
  shown <- if (length(coef(model)) > 3) shown[-1] else shown
  names <- sub("(Intercept)", "Intercept", shown, fixed = TRUE)
  found <- c(setNames(coef(model)[shown], paste("b", names)), setNames(sqrt(diag(v))[shown], paste("se", names)))
  found <- c(found, sigma = summary(model)$sigma)
  # With more coefficients than clusters, AER has no robust diagnostics.
  tests <- tryCatch(summary(model, vcov = covariance, diagnostics = TRUE)$diagnostics, error = function(e) NULL)
  if (!is.null(tests)) found <- c(found, first = tests[1, 3], hausman = tests[2, 3])
  if (is.null(covariance)) found <- c(found, Sargan = tests[3, 3])
  as.list(found)
}

formula <- y ~ x + d | x + z1 + z2
absorbed <- y ~ x + d + factor(f1) + factor(f2) | x + z1 + z2 + factor(f1) + factor(f2)
plain <- ivreg(formula, data = d)
dummies <- ivreg(absorbed, data = d)
result <- list(
  "plain" = entry(plain), "plain by g" = entry(plain, by("g")), "plain by g + f1" = entry(plain, by("g", "f1")),
  "weighted by g" = entry(ivreg(formula, data = d, weights = w), by("g")),
  "counted by HC1" = entry(ivreg(formula, data = counted), hc1),
  "absorbed" = entry(dummies), "absorbed by HC1" = entry(dummies, hc1),
  "absorbed weighted by g" = entry(ivreg(absorbed, data = d, weights = w), by("g"))
)
write(toJSON(result, auto_unbox = TRUE, digits = 15, pretty = TRUE), "instruments.json")
