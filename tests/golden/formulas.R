# Splines, arithmetic and codings of factors by R, with which tests/statistics/test_formulas.py compares.
# Run in this folder: Rscript formulas.R (R 4.2, splines, mgcv 1.8, jsonlite); reads clustered.csv and writes formulas.json.
suppressPackageStartupMessages({
  library(splines)
  library(mgcv)
  library(MASS)
  library(car)
  library(jsonlite)
})

rows <- read.csv("clustered.csv")
tight <- list(epsilon = 1e-14, maxit = 100)
at <- c(-6, -3.2, -1, -0.25, 0, 0.4, 1.75, 3, 5.5)

bases <- list(
  "ns(hour, df=1)" = ns(rows$hour, df = 1),
  "ns(hour, df=4)" = ns(rows$hour, df = 4),
  "ns(hour, knots=[-0.5, 1])" = ns(rows$hour, knots = c(-0.5, 1)),
  "ns(hour, df=5, lower_bound=-1.5, upper_bound=2, include_intercept=True)" =
    ns(rows$hour, df = 5, Boundary.knots = c(-1.5, 2), intercept = TRUE)
)
splines_at <- lapply(bases, function(basis) {
  list(values = unclass(predict(basis, at))[, , drop = FALSE], knots = as.vector(attr(basis, "knots")))
})

knots <- c(-4, -1, 0, 0.5, 2, 4)
# Within a period alone, as mgcv wraps no value from before it.
within <- c(-4, -3.2, -1, -0.25, 0, 0.4, 1.75, 3, 4)
cyclic <- smoothCon(s(hour, bs = "cc", k = 6), data = rows, knots = list(hour = knots))[[1]]
periodic <- list(
  inner = knots[2:5], at = within, values = unclass(PredictMat(cyclic, data.frame(hour = within)))
)

fitted_as <- function(formula, family) {
  fit <- glm(formula, family, rows, control = tight)
  list(
    coefficients = unname(coef(fit)), names = names(coef(fit)), std_errors = unname(sqrt(diag(vcov(fit)))),
    deviance = deviance(fit)
  )
}
fits <- list(
  arithmetic = fitted_as(late ~ hour + I(hour^2) + I((wind - 1) / 2) + log(day + 1), binomial),
  ns = fitted_as(late ~ carrier * ns(hour, df = 3), binomial),
  cc = fitted_as(delay ~ carrier + PredictMat(cyclic, rows)[, 2:5], gaussian)
)

# Codings of factors. The names of coefficients are those of formulaic, which R numbers.
rows$carrier <- factor(rows$carrier)
rows$origin <- factor(rows$day %% 3)
rows$hours <- factor(pmin(pmax(round(rows$hour), -2), 2))
coded <- list(
  sum = list(late ~ C(carrier, contr.sum) + hour, binomial),
  helmert = list(late ~ C(carrier, contr.helmert) + hour, binomial),
  poly = list(delay ~ C(hours, contr.poly) + wind, gaussian),
  diff = list(delay ~ C(hours, contr.sdif) + wind, gaussian),
  both = list(delay ~ C(carrier, contr.sum) * C(origin, contr.helmert) + hour, gaussian),
  mixed = list(delay ~ C(carrier, contr.sum) * origin + hour, gaussian),
  slopes = list(late ~ C(carrier, contr.sum) * hour, binomial),
  `slopes alone` = list(delay ~ C(carrier, contr.sum) + C(carrier, contr.sum):hour, gaussian),
  `no intercept` = list(delay ~ 0 + C(carrier, contr.sum) + C(origin, contr.helmert), gaussian)
)
codings <- lapply(coded, function(each) fitted_as(each[[1]], each[[2]]))
type3 <- Anova(lm(delay ~ C(carrier, contr.sum) * C(origin, contr.sum), rows), type = 3)
type3 <- list(term = rownames(type3)[2:4], df = type3$Df[2:4], F = type3$`F value`[2:4], p = type3$`Pr(>F)`[2:4])

versions <- list(R = as.character(getRversion()), mgcv = as.character(packageVersion("mgcv")))
made <- list(versions = versions, at = at, splines = splines_at, periodic = periodic, fits = fits, codings = codings,
             type3 = type3)
write(toJSON(made, auto_unbox = TRUE, digits = 17, na = "null", pretty = FALSE), "formulas.json")
