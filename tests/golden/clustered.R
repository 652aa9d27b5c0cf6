# Covariance matrices by cluster of R's sandwich, with which tests/test_clustered.py compares.
# Run in this folder: Rscript clustered.R (R 4.2, sandwich); writes clustered.csv and clustered.json.
library(sandwich)

set.seed(1)
n <- 400
size <- rlnorm(25)
day <- sample(25, n, replace = TRUE, prob = size)
rows <- data.frame(
  day = day,
  carrier = sample(c("AA", "B6", "DL", "UA"), n, replace = TRUE),
  hour = round(rnorm(n), 3),
  wind = round(rnorm(25), 3)[day]
)
shared <- rnorm(25)[day]
rows$delay <- round(0.3 * rows$hour + shared + rnorm(n), 3)
rows$late <- as.integer(runif(n) < plogis(-0.5 + 0.4 * rows$hour + shared))
write.csv(rows, "clustered.csv", row.names = FALSE, quote = FALSE)

described <- function(fit) {
  made <- list(coefficients = as.list(coef(fit)))
  for (type in c("HC1", "HC2")) {
    v <- vcovCL(fit, cluster = ~day, type = type)
    made[[type]] <- unname(v)
  }
  made
}
json <- function(x) {
  if (is.list(x)) {
    return(paste0("{", paste0('"', names(x), '": ', vapply(x, json, ""), collapse = ", "), "}"))
  }
  if (is.matrix(x)) {
    return(paste0("[", paste(apply(x, 1, function(row) json(as.vector(row))), collapse = ", "), "]"))
  }
  text <- format(x, digits = 17)
  if (length(x) == 1) text else paste0("[", paste(text, collapse = ", "), "]")
}
lm_fit <- lm(delay ~ carrier + hour + wind, rows)
glm_fit <- glm(late ~ carrier + hour + wind, binomial, rows, control = list(epsilon = 1e-14, maxit = 100))
said <- list(gaussian = described(lm_fit), binomial = described(glm_fit))
versions <- list(R = as.character(getRversion()), sandwich = as.character(packageVersion("sandwich")))
text <- paste0('{"versions": {"R": "', versions$R, '", "sandwich": "', versions$sandwich, '"}, "gaussian": ',
               json(said$gaussian), ', "binomial": ', json(said$binomial), "}")
writeLines(text, "clustered.json")
