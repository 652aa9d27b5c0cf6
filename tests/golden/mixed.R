# The example data of lme4 and nlme with fits of lme4, with which tests/statistics/test_mixed_models.py compares.
# Run in this folder: Rscript mixed.R (R 4.2, lme4 1.1-31, nlme 3.1-162, jsonlite); writes mixed.json.
library(lme4)
data(Orthodont, Machines, package = "nlme")

linear <- lmerControl(optimizer = "bobyqa", optCtrl = list(rhoend = 1e-11, maxfun = 1e6))
general <- glmerControl(
  optimizer = "bobyqa", optCtrl = list(rhoend = 1e-12, maxfun = 1e6), tolPwrss = 1e-14, check.conv.grad = "ignore"
)
# Shares of the variance over rows, with their numbers of trials (Nakagawa, Johnson and Schielzeth 2017).
shares <- function(m) {
  x <- model.matrix(m)
  w <- weights(m) / sum(weights(m))
  fixed <- as.vector(x %*% fixef(m))
  of_fixed <- sum(w * fixed^2) - sum(w * fixed)^2
  of_random <- vapply(VarCorr(m), function(s) {
    z <- x[, colnames(s), drop = FALSE]
    sum(w * rowSums((z %*% s) * z))
  }, 0)
  left <- sum(of_random) + if (isGLMM(m)) pi^2 / 3 else sigma(m)^2
  list(
    marginal = of_fixed / (of_fixed + left), conditional = (of_fixed + sum(of_random)) / (of_fixed + left),
    within = sort(unname(of_random / left))
  )
}
described <- function(m) {
  components <- as.data.frame(VarCorr(m))
  inside <- components$grp != "Residual"
  effects <- lapply(ranef(m), function(each) c(list(levels = rownames(each)), as.list(each)))
  list(
    criterion = if (isREML(m)) REMLcrit(m) else as.numeric(-2 * logLik(m)), # nAGQ = 1: Laplace
    fixed = unname(fixef(m)),
    # Given the variances; the default of glmer, use.hessian = TRUE, counts their estimation.
    errors = sqrt(diag(as.matrix(if (isGLMM(m)) suppressWarnings(vcov(m, use.hessian = FALSE)) else vcov(m)))),
    deviations = components$sdcor[inside & is.na(components$var2)],
    correlations = components$sdcor[inside & !is.na(components$var2)],
    effects = effects,
    shares = shares(m)
  )
}
machines <- transform(as.data.frame(Machines), cell = paste(Worker, Machine))
cases <- list(
  sleepstudy = list(sleepstudy, "Reaction ~ Days + (Days | Subject)"),
  independent = list(sleepstudy, "Reaction ~ Days + (Days || Subject)"),
  intercepts = list(sleepstudy, "Reaction ~ Days + (1 | Subject)"),
  null = list(sleepstudy, "Reaction ~ 1 + (1 | Subject)"),
  Penicillin = list(Penicillin, "diameter ~ 1 + (1 | plate) + (1 | sample)"),
  Pastes = list(Pastes, "strength ~ 1 + (1 | batch) + (1 | sample)"),
  Orthodont = list(as.data.frame(Orthodont), "distance ~ age + (age | Subject)"),
  Machines = list(machines, "score ~ Machine + (1 | Worker) + (1 | cell)"),
  cbpp = list(cbpp, "cbind(incidence, size - incidence) ~ period + (1 | herd)", "binomial")
)
made <- lapply(cases, function(case) {
  formula <- as.formula(case[[2]])
  rows <- case[[1]][all.vars(formula)]
  rows[] <- lapply(rows, function(column) if (is.factor(column)) as.character(column) else column)
  fits <- if (length(case) == 2) {
    list(
      reml = described(lmer(formula, rows, control = linear)),
      ml = described(lmer(formula, rows, REML = FALSE, control = linear))
    )
  } else {
    list(ml = described(glmer(formula, rows, case[[3]], control = general)))
  }
  made <- list(formula = case[[2]], family = if (length(case) == 2) "gaussian" else case[[3]], fits = fits)
  if (identical(case[[1]], sleepstudy) && !grepl("(Days | ", case[[2]], fixed = TRUE)) made else c(made, list(rows = as.list(rows)))
})
tests <- anova(
  lmer(cases$null[[2]], sleepstudy, REML = FALSE), lmer(cases$intercepts[[2]], sleepstudy, REML = FALSE),
  lmer(cases$sleepstudy[[2]], sleepstudy, REML = FALSE, control = linear)
)
made$anova <- list(chi_squared = tests$Chisq[-1], df = tests$Df[-1], aic = tests$AIC)
jsonlite::write_json(made, "mixed.json", digits = 10, auto_unbox = TRUE)
