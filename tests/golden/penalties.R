# Penalty factors, terms without a penalty, and cross-validation by R's glmnet, with which tests/statistics/test_penalties.py
# compares. Run in this folder: Rscript penalties.R (R 4.2, glmnet 4.1, jsonlite); reads clustered.csv and folds.csv, writes
# penalties.json. folds.csv has the fold of each day, as tfglm deals them.
suppressPackageStartupMessages({
  library(glmnet)
  library(jsonlite)
})

rows <- read.csv("clustered.csv")
rows$origin <- rows$day %% 3
standardised <- function(x) (x - mean(x)) / sqrt(mean((x - mean(x))^2))
levels_of <- sort(unique(rows$carrier))
carriers <- sapply(levels_of, function(level) as.numeric(rows$carrier == level))
# All levels where there is a penalty; without one all but the most frequent, which changes no prediction.
x <- cbind(carriers, origin1 = rows$origin == 1, origin2 = rows$origin == 2,
           hour = standardised(rows$hour), wind = standardised(rows$wind))
factors <- c(1, 1, 1, 1, 0, 0, 0.5, 2)
# glmnet divides the factors by their mean.
scale <- mean(factors)
penalties <- 10^seq(-0.8, -3, length.out = 12)
folds <- read.csv("folds.csv")
foldid <- folds$fold[match(rows$day, folds$day)] + 1

made <- list()
for (family in c("gaussian", "binomial", "poisson")) {
  y <- if (family == "gaussian") rows$delay else rows$late
  for (alpha in c(1, 0.6)) {
    # glmnet divides a gaussian response by its standard deviation, and with it the ridge part of the penalty.
    arguments <- function(rows) {
      unit <- if (family == "gaussian") sqrt(mean((y[rows] - mean(y[rows]))^2)) else 1
      share <- alpha / unit + 1 - alpha
      list(unit = unit, share = share, call = list(
        x = x[rows, ], y = y[rows] / unit, family = family, alpha = alpha / unit / share, lambda = penalties * share * scale,
        penalty.factor = factors, standardize = FALSE, thresh = 1e-20, maxit = 1e7
      ))
    }
    all <- arguments(seq_along(y))
    fit <- do.call(glmnet, all$call)
    if (family == "gaussian" && alpha < 1) {
      # In cv.glmnet that standard deviation, and so the penalty, is another in each fold.
      raw <- sapply(sort(unique(foldid)), function(fold) {
        of_fold <- arguments(which(foldid != fold))
        held <- which(foldid == fold)
        predicted <- predict(do.call(glmnet, of_fold$call), x[held, ]) * of_fold$unit
        colMeans((y[held] - predicted)^2)
      })
      weight <- as.vector(table(foldid))
      cvm <- as.vector(raw %*% weight) / sum(weight)
      cvsd <- sqrt(as.vector((raw - cvm)^2 %*% weight) / sum(weight) / (length(weight) - 1))
      best <- which.min(cvm)
      cv <- list(cvm = cvm, cvsd = cvsd, lambda.min = penalties[best],
                 lambda.1se = penalties[which(cvm <= cvm[best] + cvsd[best])[1]])
    } else {
      cv <- do.call(cv.glmnet, c(all$call, list(foldid = foldid, type.measure = "deviance")))
      cv <- list(cvm = unname(cv$cvm) * all$unit^2, cvsd = unname(cv$cvsd) * all$unit^2,
                 lambda.min = cv$lambda.min / scale / all$share, lambda.1se = cv$lambda.1se / scale / all$share)
    }
    made[[paste(family, alpha)]] <- list(
      intercept = unname(fit$a0) * all$unit, beta = unname(as.matrix(fit$beta)) * all$unit, cvm = cv$cvm, cvsd = cv$cvsd,
      min = cv$lambda.min, one_se = cv$lambda.1se
    )
  }
}
# Numbers that glmnet itself standardises, with weights, of which some are 0.
weighted <- lapply(c(gaussian = "gaussian", binomial = "binomial", poisson = "poisson"), function(family) {
  fit <- glmnet(as.matrix(rows[c("hour", "wind")]), if (family == "gaussian") rows$delay else rows$late, family = family,
                weights = (rows$day + round(rows$hour)^2) %% 4, lambda = penalties, thresh = 1e-20, maxit = 1e7)
  list(intercept = unname(fit$a0), beta = unname(as.matrix(fit$beta)))
})
versions <- list(R = as.character(getRversion()), glmnet = as.character(packageVersion("glmnet")))
write(toJSON(list(versions = versions, penalties = penalties, fits = made, weighted = weighted), auto_unbox = TRUE, digits = 17), "penalties.json")
