# Everything the project does from a fresh checkout: `make run` fits the default models, `make test` runs the tests. Both show
# their progress; VERBOSE=1 shows all output of pip and Snakemake.

PYTHON ?= python3.11
CORES ?= 4
BIN := .venv/bin
INSTALL = $(if $(VERBOSE),$(BIN)/pip install,$(BIN)/python .ci/install.py)
SNAKEMAKE = PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores $(CORES)
RUN = @$(SNAKEMAKE)$(if $(VERBOSE), --verbose)
# Images of containers often set it: then each of the many processes of a run compiles the code anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run report check test drills lint release docs docs-pictures resume clean bench-ingest bench-fit bench-large bench-clusters bench-errors bench-shapes bench-checks bench-likelihoods bench-smooths bench-smooth-peers bench-input bench-scaling bench-scaling-slurm bench-links bench-strategies bench-margins bench-absorb bench-panels bench-collapse bench-start benchmark

run: $(BIN)/.ready
	$(RUN)

report: run
	$(RUN) --report results/flights/report.html

# While you work, about a minute on two cores: formats, types, and the tests that start no process and take less than a fifth of a
# second.
check: $(BIN)/.ready-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pytest -m "not (drill or processes or slow)" --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/unit tests/statistics

test: $(BIN)/.ready-dev
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Every drill: processes that are killed, frozen or missing in the middle of a run, here and on SLURM; interrupted runs with an
# edited config; and configs, CSV files and damage by the thousand (45 minutes).
drills: $(BIN)/.ready-dev
	$(BIN)/pytest -m drill --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: $(BIN)/.ready-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow benchmarks/peers
	$(BIN)/python docs/site/document_config.py --check
	$(SNAKEMAKE) --lint

# The tag of a version, once the links of the documents lead somewhere, all that names the version agrees, and the licence of every
# dependency allows it; CONTRIBUTING.md says how to release.
release: $(BIN)/.ready-dev
	@$(BIN)/pytest --quiet --no-header tests/workflow/test_documents.py -k links
	@$(BIN)/python .ci/release.py

# The documentation as a site, site/index.html; a broken link is an error.
docs: $(BIN)/.ready-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Takes the tutorial's numbers and the pictures of docs/ from a run of the default config.
docs-pictures: run
	$(SNAKEMAKE) pictures
	$(BIN)/python docs/site/renew.py

# The speed from CSV to shards, against pandas, polars, DuckDB and unpacking (ten minutes, 5 GB); writes
# benchmarks/results/ingest.json and docs/benchmarks.md.
bench-ingest: $(BIN)/.ready
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/page.py

# The speed of a fit, against other programs (a quarter of an hour, 8 GB); writes benchmarks/results/fit.json and
# docs/benchmarks.md. It has its own environment, because glum's packages change how other packages behave.
bench-fit: requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --requirement requirements.txt glum==3.4.1
	.venv-bench/bin/python benchmarks/fit.py
	.venv-bench/bin/python benchmarks/page.py

# Whether tests and intervals by cluster keep their level, by simulation (hours); writes
# benchmarks/results/clustered_inference.json.
bench-clusters: $(BIN)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/clustered_inference.py

# The same with HC0 to HC3, clusters of two columns and serial correlation (ten minutes); writes benchmarks/results/robust_inference.json.
bench-errors: $(BIN)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/robust_inference.py

# How often intervals of theta and power cover the truth, by simulation (some minutes); writes benchmarks/results/shapes.json.
bench-shapes: $(BIN)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/shapes.py

# How often the checks of a right model raise a false alarm, by simulation (five minutes); writes benchmarks/results/checks.json.
bench-checks: $(BIN)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/checks.py

# Whether likelihood ratios keep their level and profiles cover the truth, by simulation (ten minutes); writes
# benchmarks/results/likelihoods.json.
bench-likelihoods: $(BIN)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/likelihoods.py

# Whether tests of smooth terms keep their level and intervals of curves cover the truth, by simulation (five minutes); writes
# benchmarks/results/smooths.json.
bench-smooths: $(BIN)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/smooths.py

# Smooth terms beside mgcv's bam; writes benchmarks/results/smooth_peers.json. Needs R with mgcv.
bench-smooth-peers: $(BIN)/.ready-dev
	$(BIN)/python benchmarks/smooth_peers.py --rows 10000000 --levels 5000

# How often intervals of marginal effects cover the truth, by simulation (five minutes); writes benchmarks/results/margins.json.
bench-margins: $(BIN)/.ready-dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/margins.py

# The time for absorbed factors, against pyfixest, and for 120 million rows (half an hour, 12 GB); writes
# benchmarks/results/absorb.json.
bench-absorb: $(BIN)/.ready-dev
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --requirement benchmarks/peers/environments/pyfixest.txt
	$(BIN)/python benchmarks/absorb.py --peer .venv-bench/bin/python

# Panels from a Parquet file to a table, beside hdfe-stream, pyfixest and linearmodels (20 minutes); writes
# benchmarks/results/panels.json.
bench-panels: $(BIN)/.ready-dev
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --requirement benchmarks/peers/environments/panels.txt
	$(BIN)/python benchmarks/panels.py --peer .venv-bench/bin/python

# The time for sweeps of ten models with and without collapsed rows (ten minutes, 2 GB); writes benchmarks/results/collapse.json.
bench-collapse: $(BIN)/.ready-dev
	$(BIN)/python benchmarks/collapse.py

# The time from a small CSV file to its pages, mostly that of starting programs, and of one call (20 minutes, 3 GB), against glum,
# pyfixest and statsmodels if .venv-bench has them; writes benchmarks/results/start.json and docs/benchmarks.md.
bench-start: $(BIN)/.ready
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/page.py

# The speed from shards to a network (two minutes, 1 GB); writes benchmarks/results/network_input.json.
bench-input: $(BIN)/.ready
	$(BIN)/python benchmarks/network_input.py

# How much faster more workers fit a regression (ten minutes on two busy cores, 4 GB); writes benchmarks/results/scaling.json.
bench-scaling: $(BIN)/.ready
	$(BIN)/python benchmarks/scaling.py

# The cost of SLURM for such a fit, on simulated nodes (as root; a quarter of an hour on two busy cores, 9 GB); writes
# benchmarks/results/scaling_slurm.json.
bench-scaling-slurm: $(BIN)/.ready
	$(BIN)/python benchmarks/scaling_slurm.py

# The cost of fits on links of 1 and 10 Gbit/s with up to 32 workers, and the predictions of a model for larger clusters (as root;
# 25 minutes on two quiet cores, 16 GB); writes benchmarks/results/links.json and docs/scaling.md.
bench-links: $(BIN)/.ready
	$(BIN)/python benchmarks/links.py
	$(BIN)/python benchmarks/page.py

# The cost of each strategy of a network, to start and for a step, and beside model.fit and a coordinator loop (fifteen minutes, 2 GB);
# writes benchmarks/results/strategies.json and strategies_beside.json.
bench-strategies: $(BIN)/.ready
	$(BIN)/python benchmarks/strategies.py
	$(BIN)/python benchmarks/strategies.py --beside

# The same regressions by other programs, each in its own environment (hours; needs R with jsonlite and data.table, Java for H2O
# and Spark, 16 GB); writes benchmarks/results/peers.json, docs/peers.md and its picture.
benchmark: $(BIN)/.ready-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" snakemake --cores 2 --keep-going --snakefile benchmarks/peers/Snakefile
	$(BIN)/python benchmarks/peers/page.py

# 120 million flights from CSV to coefficients (ten minutes, 16 GB); writes benchmarks/results/large.json and
# docs/benchmarks.md.
bench-large: $(BIN)/.ready
	$(BIN)/python benchmarks/large.py
	$(BIN)/python benchmarks/page.py

# After a power cut or a SIGKILL of Snakemake, which then could not remove its lock.
resume: $(BIN)/.ready
	$(SNAKEMAKE) --unlock
	$(RUN) --rerun-incomplete

# Deletes everything that a run made; the configuration and the data stay.
clean:
	rm -rf results logs timings .snakemake

$(BIN)/.ready: requirements.txt
	@echo "Setting up $(CURDIR)/.venv: some minutes"
	@$(PYTHON) -m venv .venv
	@$(INSTALL) --requirement requirements.txt
	@touch $@

$(BIN)/.ready-dev: $(BIN)/.ready requirements-dev.txt
	@$(INSTALL) --requirement requirements-dev.txt
	@touch $@
