# R's glm or lm, with standard errors; data.table reads the CSV file.
library(data.table)
words <- commandArgs(trailingOnly = TRUE)
work <- jsonlite::fromJSON(words[2])
setDTthreads(as.integer(Sys.getenv("BENCHMARK_CORES", "2")))
read <- system.time(table <- fread(words[1], stringsAsFactors = TRUE))[["elapsed"]]
for (name in work$factors) table[[name]] <- factor(table[[name]], levels = sort(as.character(unique(table[[name]])), method = "radix"))
formula <- reformulate(c(work$factors, work$numbers), work$response)
fit <- system.time({
  model <- if (work$family == "binomial") glm(formula, binomial, table) else lm(formula, table)
  estimates <- summary(model)$coefficients
})[["elapsed"]]
names <- rownames(estimates)
term <- names
level <- rep("", length(names))
term[names == "(Intercept)"] <- "Intercept"
for (name in work$factors) {
  at <- names %in% paste0(name, levels(table[[name]]))
  term[at] <- name
  level[at] <- substring(names[at], nchar(name) + 1)
}
answer <- data.frame(term, level, estimate = estimates[, 1], std_error = estimates[, 2])
write.csv(answer, file.path(words[3], "coefficients.csv"), row.names = FALSE, quote = FALSE)
said <- list(read_seconds = read, fit_seconds = fit, versions = list(R = as.character(getRversion())))
writeLines(jsonlite::toJSON(said, auto_unbox = TRUE, digits = NA), file.path(words[3], "said.json"))
