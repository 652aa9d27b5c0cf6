# Adjusted means on a balanced grid by R's emmeans, with which tests/statistics/test_balanced_means.py compares.
# Run in this folder: Rscript emmeans.R (R 4.2, emmeans 1.8, jsonlite); reads clustered.csv and writes emmeans.json.
suppressPackageStartupMessages({
  library(emmeans)
  library(jsonlite)
  library(splines)
})

rows <- read.csv("clustered.csv")
rows$origin <- rows$day %% 3
rows$state <- as.integer(rows$origin == 0)
rows$evening <- as.integer(rows$hour > 0)
some <- subset(rows, carrier != "UA" | origin != 2)
tight <- list(epsilon = 1e-14, maxit = 100)

fits <- list(
  binomial = glm(late ~ carrier * factor(origin) + bs(hour, df = 4) + evening, binomial, rows, control = tight),
  gaussian = lm(delay ~ carrier * hour + factor(origin) + poly(wind, 2), rows, weights = day),
  poisson = glm(late ~ carrier * wind * evening + factor(origin) + offset(log(day)), poisson, rows, control = tight),
  "empty combination" = lm(delay ~ carrier * factor(origin) + hour, some),
  aliased = lm(delay ~ carrier + factor(origin) + factor(state), rows)
)

described <- function(fit) {
  of_factor <- function(name) {
    table <- as.data.frame(summary(emmeans(fit, name, nesting = NULL), type = "response"))
    # After the level: the mean, its standard error, the degrees of freedom (of z infinite), and the ends of the interval.
    names(table) <- c("level", "mean", "std_error", "df", "ci_lower", "ci_upper")
    table$df[is.infinite(table$df)] <- NA
    table$level <- as.character(table$level)
    table
  }
  sapply(c("carrier", "origin"), of_factor, simplify = FALSE)
}

# All carriers compared at values of numbers that they interact with.
interacting <- list(
  binomial = glm(late ~ carrier * bs(hour, df = 4) + carrier * wind + factor(origin), binomial, rows, control = tight),
  gaussian = lm(delay ~ carrier * poly(hour, 2) + carrier:factor(origin) + factor(origin) + wind, rows, weights = day)
)
compared <- function(fit) {
  at <- list(hour = c(-1.5, 0.25), wind = c(-1, 2))
  by <- intersect(c("hour", "wind"), if (inherits(fit, "glm")) c("hour", "wind") else "hour")
  means <- emmeans(fit, "carrier", by = by, at = at[by], nesting = NULL)
  table <- as.data.frame(summary(pairs(means, reverse = FALSE), infer = TRUE))
  names(table)[names(table) %in% c("z.ratio", "t.ratio")] <- "ratio"
  names(table)[names(table) %in% c("asymp.LCL", "lower.CL")] <- "ci_lower"
  names(table)[names(table) %in% c("asymp.UCL", "upper.CL")] <- "ci_upper"
  table$df <- NULL
  table
}
versions <- list(R = as.character(getRversion()), emmeans = as.character(packageVersion("emmeans")))
said <- c(list(versions = versions), lapply(fits, described), list("pairs at values" = lapply(interacting, compared)))
write_json(said, "emmeans.json", digits = NA, auto_unbox = TRUE, pretty = TRUE, na = "null")
