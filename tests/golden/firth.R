# Bias-reduced fits of R's brglm2, of which type "AS_mean" is Firth's penalised likelihood where links are canonical; with these
# tests/statistics/test_firth.py compares.
# Run in this folder: Rscript firth.R (R 4.2, brglm2 0.9, jsonlite); reads clustered.csv and writes firth.json.
library(brglm2)

rows <- read.csv("clustered.csv")[1:80, ]
# Rows that the terms separate: all of these are late, and none has a count.
rows$both <- as.integer(rows$carrier == "AA" & rows$hour > 0.3)
rows$late[rows$both == 1] <- 1
rows$n <- rows$day %% 4 + 1
rows$events <- pmin(rows$n, rows$late * (1 + rows$day %% 3))
rows$flights <- ifelse(rows$both == 1, 0, floor(exp(rows$hour / 2) * (1 + rows$day %% 3)))
rows$seats <- 1 + rows$day %% 5

described <- function(formula, family, data = rows, ...) {
  fit <- glm(formula, family, data,
    method = "brglmFit", type = "AS_mean", ..., control = list(epsilon = 1e-13, maxit = 1000)
  )
  list(
    coefficients = as.list(coef(fit)), std_errors = as.list(sqrt(diag(vcov(fit)))), log_likelihood = c(logLik(fit)),
    aic = AIC(fit)
  )
}
said <- list(
  binomial = described(late ~ carrier + hour + both, binomial),
  interaction = described(late ~ carrier * hour, binomial),
  trials = described(cbind(events, n - events) ~ carrier + hour + both, binomial),
  frequency = described(late ~ carrier + hour + both, binomial, rows[rep(seq_len(80), rows$n), ]),
  offset = described(late ~ carrier + hour + both + offset(wind), binomial),
  poisson = described(flights ~ carrier + hour + both, poisson),
  exposure = described(flights ~ carrier + hour + both + offset(log(seats)), poisson)
)
jsonlite::write_json(list(rows = rows, said = said), "firth.json", digits = NA, auto_unbox = TRUE, pretty = TRUE)
