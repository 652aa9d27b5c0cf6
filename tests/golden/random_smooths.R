# mgcv's gam(method = "REML") for models of tests/random_smooths.py: Rscript random_smooths.R FOLDER (R 4.2, mgcv 1.8-41,
# jsonlite) reads models.json and a CSV file for each, and writes fits.json.
library(jsonlite)
library(mgcv)

folder <- commandArgs(TRUE)[1]
models <- fromJSON(file.path(folder, "models.json"), simplifyDataFrame = FALSE)
control <- gam.control(epsilon = 1e-10, maxit = 400, newton = list(
  conv.tol = 1e-8, maxNstep = 5, maxSstep = 2, maxHalf = 50, use.svd = FALSE
))

fitted_by <- function(model) {
  rows <- read.csv(file.path(folder, paste0(model$seed, ".csv")), stringsAsFactors = TRUE)
  if (model$frequency != "") rows <- rows[rep(seq_len(nrow(rows)), rows[[model$frequency]]), ]
  prior <- if (model$weights == "") rep(1, nrow(rows)) else rows[[model$weights]]
  warned <- character(0)
  fit <- function(sp) {
    formula <- as.formula(model$formula)
    environment(formula) <- environment()
    family <- eval(parse(text = model$family))
    gam(formula, family, rows, weights = prior, method = "REML", control = control, sp = sp)
  }
  tryCatch(
    withCallingHandlers(
      {
        free <- fit(NULL)
        scales <- unlist(lapply(free$smooth, function(each) each$S.scale))
        is_random <- unlist(lapply(free$smooth, function(each) rep(inherits(each, "random.effect"), length(each$S))))
        at_one <- suppressWarnings(fit(ifelse(is_random, -1, scales)))
        list(
          seed = model$seed, gain = as.vector(at_one$gcv.ubre - free$gcv.ubre), edf = sum(free$edf),
          converged = free$converged && free$outer.info$conv == "full convergence",
          log_lambda = as.list(as.vector(log(free$sp / scales))), warned = paste(unique(warned), collapse = "; ")
        )
      },
      warning = function(each) {
        warned <<- c(warned, conditionMessage(each))
        invokeRestart("muffleWarning")
      }
    ),
    error = function(each) list(seed = model$seed, error = conditionMessage(each))
  )
}
write(toJSON(lapply(models, fitted_by), digits = NA, auto_unbox = TRUE), file.path(folder, "fits.json"))
