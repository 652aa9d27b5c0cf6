# Regressions of computed responses by R, with which tests/statistics/test_responses.py compares.
# Run in this folder: Rscript responses.R (R 4.2, jsonlite); reads clustered.csv and writes responses.json.
library(jsonlite)

rows <- read.csv("clustered.csv")
rows$amount <- exp(rows$delay)
rows$events <- pmin(rows$day, 3 * rows$late + 1)
tight <- list(epsilon = 1e-14, maxit = 100)

described <- function(fit) {
  list(
    names = names(coef(fit)), coefficients = unname(coef(fit)), std_errors = unname(sqrt(diag(vcov(fit)))),
    deviance = deviance(fit)
  )
}

# Adjusted means of a factor: the mean of the predicted logarithms of all rows with the level, and its exponential.
geometric_means <- function(fit, base) {
  carriers <- sort(unique(rows$carrier))
  t(sapply(carriers, function(level) {
    matrix <- colMeans(model.matrix(delete.response(terms(fit)), replace(rows, "carrier", level), xlev = fit$xlevels))
    mean <- sum(matrix * coef(fit))
    margin <- qt(0.975, df.residual(fit)) * sqrt(drop(matrix %*% vcov(fit) %*% matrix))
    base^c(mean, mean - margin, mean + margin)
  }))
}

natural <- lm(log(amount) ~ hour + carrier, rows)
decimal <- lm(log10(amount) ~ ., rows[c("amount", "hour", "carrier", "wind")])
of_rows <- exp(predict(natural, rows[1:5, ], interval = "confidence"))

result <- list(
  "log(amount) ~ hour + carrier" = c(
    described(natural), list(means = geometric_means(natural, exp(1)), predictions = unname(of_rows))
  ),
  "log10(amount) ~ ." = c(described(decimal), list(means = geometric_means(decimal, 10))),
  "cbind(events, day - events) ~ hour + carrier" =
    described(glm(cbind(events, day - events) ~ hour + carrier, binomial, rows, control = tight)),
  "I(delay > 0.5) ~ hour + carrier" = described(glm(I(delay > 0.5) ~ hour + carrier, binomial, rows, control = tight)),
  "I(delay^2 / 2) ~ hour" = described(lm(I(delay^2 / 2) ~ hour, rows)),
  "delay ~ 1" = described(lm(delay ~ 1, rows)),
  "late ~ 1" = described(glm(late ~ 1, binomial, rows, control = tight)),
  "day ~ 1" = described(glm(day ~ 1, poisson, rows, control = tight))
)
write_json(result, "responses.json", digits = NA, auto_unbox = TRUE, pretty = TRUE)
