# Slopes at each level of a factor by lm and glm, a column for each level, with errors by sandwich, with which
# tests/statistics/test_absorb.py compares. Run in this folder: Rscript slopes.R (sandwich, jsonlite); writes slopes.csv and
# slopes.json.
suppressMessages({library(sandwich); library(jsonlite)})

set.seed(8)
n <- 400
d <- data.frame(g = sample(25, n, replace = TRUE), f = sample(9, n, replace = TRUE), year = sample(2001:2008, n, replace = TRUE))
d$u <- round(rnorm(n, 3) + d$g / 10, 3)
d$x <- round(rnorm(n) + 0.05 * (d$year - 2000) * sin(d$g) + d$f / 5, 3)
d$z <- round(rnorm(n) + 0.2 * d$u * cos(d$g), 3)
d$w <- round(runif(n, 0.5, 2), 2)
d$year[d$g == 7] <- 2003
eta <- 0.3 * d$x - 0.2 * d$z + sin(d$g) + 0.1 * (d$year - 2004) * cos(d$g)
d$y <- round(eta + rnorm(n), 4)
d$changes <- rpois(n, exp(1.5 + eta / 3))
d$age <- 60 * d$year + 1e5 # another unit and a far origin than t, with the same slopes
write.csv(d, "slopes.csv", row.names = FALSE, quote = FALSE)
d$t <- d$year - 2004
d$g <- factor(d$g)
d$f <- factor(d$f)

entry <- function(model, v = vcov(model)) {
  shown <- c("x", "z")
  v <- v[shown, shown]
  list(estimate = unname(coef(model)[shown]), std_error = unname(sqrt(diag(v))), df = model$df.residual)
}

effects <- lm(y ~ x + z + g + g:t, d)
two <- lm(y ~ x + z + g + g:t + f + f:u, d)
counts <- glm(changes ~ x + z + g + g:t, poisson, d, control = glm.control(epsilon = 1e-11, maxit = 100))
# vcovCL has G / (G - 1) alone. fixest counts one for the effects of a factor nested in the clusters, but each of its slopes.
by <- function(model, counted) vcovCL(model, cluster = d$g, type = "HC0") * (n - 1) / (n - counted)
result <- list(
  "y | g[age]" = entry(effects),
  "y | g[[age]]" = entry(lm(y ~ x + z + g:age, d)),
  "y | g[age, u]" = entry(lm(y ~ x + z + g + g:t + g:u, d)),
  "y | g[age] + year" = entry(lm(y ~ x + z + g + g:t + factor(year), d)),
  "y | g[age] + f[u]" = entry(two),
  "y | g[age, u] + f[[u]]" = entry(lm(y ~ x + z + g + g:t + g:u + f:u, d)),
  "y | g[age] weights w" = entry(lm(y ~ x + z + g + g:t, d, weights = w)),
  "y | g[age] std_errors HC1" = entry(effects, vcovHC(effects, type = "HC1")),
  "y | g[age] std_errors cluster(g)" = entry(effects, by(effects, 2 + 1 + 24)),
  "y | g[age] + f[u] std_errors cluster(g)" = entry(two, by(two, 2 + 1 + 24 + 8 + 9)),
  "changes | g[age]" = entry(counts)
)
write(toJSON(result, auto_unbox = TRUE, digits = 15, pretty = TRUE), "slopes.json")
