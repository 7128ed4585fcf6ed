# genlab: `make` lists the targets. Every target sets the environment up first if necessary.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
# One more than two cores: while a test waits for a process or a page, another one computes.
WORKERS ?= 3
# The tests of a file share fixtures. tests/conftest.py runs the longest files first.
SPREAD = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Commands are called by name (`python stages/...`): the environment's come first.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# One thread for experiments, several of which run in parallel, and for benchmarks. Not for repro: its
# files must equal those of `dvc repro`, and the number of threads changes the last digits of sums.
experiments bench: export OMP_NUM_THREADS ?= 1
# Bytecode is written: else every worker and every process of a test would compile each module.
test test-fast coverage faults: export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help setup repro smoke accept experiments report test test-fast coverage faults pictures lint docs diagram bench app dev lock licences servers verify-repro clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Make the environment .venv from the lock (a few minutes, once)

$(STAMP): requirements.lock pyproject.toml scripts/setup.sh
	@PYTHON='$(PYTHON)' sh scripts/setup.sh

# make expands both lines before it runs the first.
repro: $(STAMP) ## Run the pipeline: data, training, measurement, failures, verdict
	@$(PY) -m dvc repro $(ARGS)
	@$(PY) -m scripts.summary --since $(shell date +%s)

smoke: $(STAMP) ## Run the pipeline on a small task in a temporary clone (about two minutes)
	@$(PY) -m scripts.smoke $(ARGS)

verify-repro: $(STAMP) ## Compare two small clones byte for byte (ARGS="--compare A B")
	@$(PY) -m scripts.verify_repro $(ARGS)

accept: $(STAMP) ## Keep results after a change of code that changes no output (COMMIT=HEAD~1)
	@$(PY) -m scripts.accept '$(COMMIT)'

experiments: $(STAMP) ## Run the documented experiments (ARGS="--only NAME --jobs 2 --force")
	@$(VENV)/bin/genlab experiments $(ARGS)

report: $(STAMP) ## Write reports/ and the README's results from the run's files
	@$(PY) benchmarks/run.py pipeline
	@$(VENV)/bin/genlab report $(ARGS)

test: $(STAMP) ## Run the tests on three processes (WORKERS=5, ARGS="-k name")
	@$(PY) -m pytest $(SPREAD) $(ARGS)

test-fast: $(STAMP) ## Run the tests that are marked neither slow nor e2e
	@$(PY) -m pytest -q $(SPREAD) -m 'not slow and not e2e' $(ARGS)

coverage: $(STAMP) ## Measure line and branch coverage of src
	@$(PY) -m pytest -q $(SPREAD) --cov=src --cov-branch $(ARGS)

faults: $(STAMP) ## Run the zero-tolerance checks at full size; writes results/faults.json
	@GENLAB_FAULTS=results/faults.json $(PY) -m pytest tests/faults $(ARGS)

pictures: $(STAMP) ## Take the screenshots of the app and of a report again, of the committed results
	@GENLAB_SHOTS=docs/pictures $(PY) -m pytest -q tests/e2e/test_shots.py

docs: $(STAMP) ## Build the documentation into build/site/, strictly
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

diagram: $(STAMP) ## Draw docs/pictures/packages.svg from the imports in the code
	@$(PY) scripts/import_diagram.py

lint: $(STAMP) ## Check style, types and directions of imports
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy --strict src
	@$(VENV)/bin/lint-imports --no-logo

servers: $(STAMP) ## Try the agent with real servers of language models (ARGS=llama.cpp; downloads gigabytes)
	@$(PY) -m scripts.servers $(ARGS)

bench: $(STAMP) ## Run every benchmark and compare it with its target (ARGS="NAME", ARGS=--list)
	@$(PY) benchmarks/run.py $(or $(ARGS),--all)

app: $(STAMP) ## Serve the pages and the API on http://127.0.0.1:8000
	@$(VENV)/bin/streamlit run app.py

dev: $(STAMP) ## The same, reloading on change
	@$(VENV)/bin/uvicorn app:app --reload

lock: $(STAMP) ## Write requirements.lock again from pyproject.toml
	@sh scripts/lock.sh

licences: $(STAMP) ## List the installed packages with their licences, unknown ones last
	@$(PY) scripts/licences.py

clean: ## Remove caches of tools, but no results and data
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist dvc_plots
	@find . -path './$(VENV)' -prune -o -type d -name __pycache__ -exec rm -rf {} +
