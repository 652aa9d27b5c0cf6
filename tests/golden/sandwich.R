# Covariance matrices of R's sandwich, with which tests/statistics/test_sandwich.py compares.
# Run in this folder: Rscript sandwich.R (R 4.2, sandwich, jsonlite); writes sandwich.csv and sandwich.json.
library(sandwich)
library(jsonlite)

set.seed(2)
n <- 600
days <- 60
day <- sort(c(seq_len(days), sample(days, n - days, replace = TRUE)))
plane <- sample(45, n, replace = TRUE, prob = rlnorm(45, sdlog = 0.5))
of_day <- as.vector(arima.sim(list(ar = 0.5), days))
of_plane <- rnorm(45)
rows <- data.frame(
  day = day,
  plane = plane,
  carrier = sample(c("AA", "B6", "DL", "UA"), n, replace = TRUE),
  hour = round(rnorm(n), 3),
  wind = round(as.vector(arima.sim(list(ar = 0.5), days)), 3)[day],
  weight = sample(c(0.5, 1, 2), n, replace = TRUE),
  times = sample(1:3, n, replace = TRUE)
)
shared <- 0.5 * of_day[day] + 0.5 * of_plane[plane]
rows$delay <- round(0.3 * rows$hour + shared + rnorm(n), 3)
rows$late <- as.integer(runif(n) < plogis(-0.5 + 0.4 * rows$hour + shared))
rows$count <- rpois(n, exp(0.2 + 0.2 * rows$hour + 0.3 * shared))
rows <- rows[sample(n), ]
write.csv(rows, "sandwich.csv", row.names = FALSE, quote = FALSE)

exactly <- list(epsilon = 1e-14, maxit = 100)
right <- ~ carrier + hour + wind
fit <- function(family, response, data, weights = rep(1, nrow(data))) {
  data$prior <- weights
  glm(update(right, paste(response, "~ .")), family, data, prior, control = exactly)
}
of <- function(model, data) {
  made <- list(coefficients = coef(model))
  for (type in c("HC0", "HC1", "HC2", "HC3")) {
    made[[type]] <- unname(vcovHC(model, type = type))
  }
  for (type in c("HC0", "HC1")) {
    made[[paste0("two_", type)]] <- unname(vcovCL(model, cluster = data[c("day", "plane")], type = type))
  }
  made$three <- unname(vcovCL(model, cluster = data[c("day", "plane", "carrier")], type = "HC1"))
  for (lag in c(0, 1, 4)) {
    made[[paste0("driscoll_kraay_", lag)]] <- unname(vcovPL(model, cluster = data$day, order.by = data$day, lag = lag, aggregate = TRUE))
  }
  made
}
rows$positive <- exp(rows$delay / 4)
# A row a day, for errors of Newey and West.
daily <- rows[!duplicated(rows$day), ]
daily <- daily[order(daily$day), ]
of_days <- function(model) {
  made <- list(coefficients = coef(model))
  for (lag in c(0, 1, 4)) {
    made[[paste0("newey_west_", lag)]] <- unname(
      NeweyWest(model, lag = lag, prewhite = FALSE, adjust = TRUE)
    )
  }
  made
}
repeated <- rows[rep(seq_len(n), rows$times), ]
said <- list(
  versions = list(R = as.character(getRversion()), sandwich = as.character(packageVersion("sandwich"))),
  gaussian = of(fit(gaussian, "delay", rows), rows),
  binomial = of(fit(binomial, "late", rows), rows),
  poisson = of(fit(poisson, "count", rows), rows),
  gamma = of(fit(Gamma("log"), "positive", rows), rows),
  probit = of(fit(binomial("probit"), "late", rows), rows),
  weighted = of(fit(gaussian, "delay", rows, weights = rows$weight), rows),
  repeated = of(fit(gaussian, "delay", repeated), repeated),
  daily_gaussian = of_days(fit(gaussian, "delay", daily)),
  daily_poisson = of_days(fit(poisson, "count", daily))
)
said <- lapply(said, function(x) if (is.list(x)) lapply(x, function(y) if (is.numeric(y) && !is.matrix(y)) unname(y) else y))
write_json(said, "sandwich.json", digits = NA, auto_unbox = TRUE)
