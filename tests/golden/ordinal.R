# Cumulative link models by R's MASS::polr, with which tests/statistics/test_ordinal.py compares.
# Run in this folder: Rscript ordinal.R (R 4.2, MASS 7.3, jsonlite); reads clustered.csv, writes ordinal.json.
suppressPackageStartupMessages({
  library(MASS)
  library(jsonlite)
})

rows <- read.csv("clustered.csv")
rows$carrier <- factor(rows$carrier)
rows$delayed <- cut(rows$delay, c(-Inf, -0.5, 0.5, 1.5, Inf), labels = c("early", "punctual", "late", "stuck"), ordered_result = TRUE)
rows$times <- rows$day %% 3 + 1

made <- list()
for (link in c("logistic", "probit", "cloglog")) {
  for (weighted in c(FALSE, TRUE)) {
    counted <- if (weighted) rows$times else rep(1, nrow(rows))
    fit <- polr(delayed ~ carrier + hour + I(wind^2) + hour:wind, data = cbind(rows, counted), weights = counted, method = link,
                Hess = TRUE, control = list(reltol = 1e-16, maxit = 2000))
    errors <- sqrt(diag(vcov(fit)))
    name <- paste0(if (link == "logistic") "logit" else link, if (weighted) " weights" else "")
    made[[name]] <- list(coefficients = as.list(c(fit$coefficients, fit$zeta)), errors = as.list(errors),
                         log_likelihood = as.numeric(logLik(fit)), probabilities = unname(head(fit$fitted.values, 5)))
  }
}
without <- polr(delayed ~ hour + I(wind^2) + hour:wind, data = rows, Hess = TRUE, control = list(reltol = 1e-16, maxit = 2000))
made[["carrier"]] <- as.numeric(2 * (made$logit$log_likelihood - logLik(without)))
tight <- list(reltol = 1e-16, maxit = 2000)
moved <- polr(delayed ~ carrier + hour + offset(wind), data = rows, control = tight)
made[["offset"]] <- list(coefficients = as.list(c(moved$coefficients, moved$zeta)), log_likelihood = as.numeric(logLik(moved)),
                         null_deviance = polr(delayed ~ offset(wind), data = rows, control = tight)$deviance)
write_json(c(list(versions = list(R = R.version.string, MASS = as.character(packageVersion("MASS")))), made),
           "ordinal.json", digits = NA, auto_unbox = TRUE, pretty = 1)
