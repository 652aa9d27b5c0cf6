# Ridge, lasso and elastic net of regressions of classes by R's glmnet, with which tests/statistics/test_multinomial_penalties.py
# compares. Run in this folder: Rscript multinomial.R (R 4.2, glmnet 4.1, jsonlite); reads clustered.csv, writes multinomial.json.
suppressPackageStartupMessages({
  library(glmnet)
  library(jsonlite)
})

rows <- read.csv("clustered.csv")
# Three classes, of which the first is the reference class of the terms without a penalty.
class <- factor(ifelse(rows$late == 1, "late", ifelse(rows$delay > median(rows$delay), "near", "early")))
origin <- rows$day %% 3
standardised <- function(x) (x - mean(x)) / sqrt(mean((x - mean(x))^2))
levels_of <- sort(unique(rows$carrier))
carriers <- sapply(levels_of, function(level) as.numeric(rows$carrier == level))
x <- cbind(carriers, origin1 = origin == 1, origin2 = origin == 2, hour = standardised(rows$hour), wind = standardised(rows$wind))
factors <- c(rep(1, length(levels_of)), 0, 0, 0.5, 2)
# glmnet divides the factors by their mean.
scale <- mean(factors)
penalties <- c(0.1, 0.03, 0.01, 0.001)

made <- list()
for (alpha in c(0, 0.5, 1)) {
  fit <- glmnet(x, class, "multinomial", type.multinomial = "ungrouped", alpha = alpha, lambda = penalties * scale,
                penalty.factor = factors, standardize = FALSE, thresh = 1e-20, maxit = 1e7)
  made[[as.character(alpha)]] <- list(
    intercept = unname(fit$a0), beta = lapply(fit$beta, function(each) unname(as.matrix(each))), deviance = deviance(fit)
  )
}
write_json(c(list(versions = list(R = R.version.string, glmnet = as.character(packageVersion("glmnet"))), columns = colnames(x),
                  classes = levels(class), penalties = penalties, factors = factors), made),
           "multinomial.json", digits = NA, auto_unbox = TRUE)
