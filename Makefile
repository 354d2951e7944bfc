# Two commands are enough on a machine with Python 3.11 or newer: `make demo` and `make test`.
# Each makes its own environment in .venv and installs the versions in requirements/lock.txt, each
# file of which is held to its hash.

SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# 3.11 comes first because the lock is made and tested on it. Each candidate is run, since a name
# on the path need not work.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
INSTALL := python -m pip install --quiet --disable-pip-version-check --no-deps
LOCKED := $(INSTALL) --require-hashes --requirement
# A folder has no hash, so headcount itself and its papers come last, built by a locked backend and without a look
# at any registry.
ITSELF := $(INSTALL) --no-index --no-build-isolation --editable . --editable papers
INPUTS := pyproject.toml papers/pyproject.toml requirements/lock.txt src/headcount/_version.py
TOOLS := build/tools
NEWEST := build/newest
# The newest Python that runs here, found on the path or kept by pyenv.
NEWEST_PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 \
  $$(ls -d $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python 2>/dev/null | sort -rV) python3.11 python3; do \
  $$p -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
NAME ?=
ARGS ?=
CASES ?= 200
SEED ?= 1
UPGRADE ?=
# Files are dealt whole to the workers, so that what a file prepares is prepared once; those of slow
# tests first, so that at the end no worker waits for another.
PYTEST_ARGS ?= --numprocesses auto --dist loadfile --no-loadscope-reorder

.PHONY: help install compiled r dist spark demo test test-fast test-needs test-newest lint sentences docs bench fuzz extreme kills lock sbom clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.runtime  ## install: the command is .venv/bin/headcount

compiled: $(VENV)/.runtime  ## compile what releases and attacks use beforehand: a minute, once
	@$(BIN)/python -P -m headcount.testing.warm

demo: $(VENV)/.runtime  ## install, compare ways to protect an embedded population, say where the report is
	$(BIN)/headcount demo

# What is checked and what is compiled need nothing of each other, and mypy one core alone.
test: $(VENV)/.dev  ## install, then ruff, mypy, import-linter and pytest
	@$(MAKE) --no-print-directory --jobs=2 lint compiled
	$(BIN)/python -m pytest $(PYTEST_ARGS)
	@command -v chromium chromium-browser google-chrome >/dev/null || \
	  echo "NOTE: no Chromium on the path, so the tests that open a report in a browser were SKIPPED." \
	  "Install it (Debian: apt-get install chromium), or use .ci/run, which never skips them."
	@command -v java >/dev/null && test -e $(VENV)/.spark || \
	  echo "NOTE: no Java on the path, or no 'make spark', so the tests of the engine spark were SKIPPED." \
	  ".ci/run never skips them."

test-fast: $(VENV)/.dev  ## the quick tests alone, in less than two minutes: for the inner loop
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "not slow and not browser and not spark"

test-needs: $(VENV)/.dev  ## only the tests that need a browser or Spark ('make spark')
	$(BIN)/python -m pytest $(PYTEST_ARGS) -m "browser or spark"

test-newest:  ## the tests with the newest versions that pyproject allows, on the newest Python
	@test -n "$(NEWEST_PYTHON)" || { echo "found no Python 3.11 or newer: NEWEST_PYTHON=..." >&2; exit 1; }
	@rm -rf $(NEWEST) && $(NEWEST_PYTHON) -m venv $(NEWEST)
	@echo "Installing the newest versions into $(NEWEST) ..."
	@$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]' --editable papers
	@$(NEWEST)/bin/python -c 'import sys, numpy, scipy, polars, pydantic; \
	  print("Python", sys.version.split()[0], *(f"{m.__name__} {m.__version__}" for m in (numpy, scipy, polars, pydantic)))'
	$(NEWEST)/bin/python -m pytest $(PYTEST_ARGS)

spark: $(VENV)/.spark  ## install PySpark too; Java 17 or newer is yours to install
	@command -v java >/dev/null || echo "NOTE: no Java on the path (Debian: apt-get install default-jre-headless)."

# Vignettes and tests of the R package call this Python. R ends with 0 after a warning too.
r: $(VENV)/.runtime  ## build and check the R package; R and its packages are yours to install
	@command -v R >/dev/null || { echo "found no R (Debian: apt-get install r-base-core r-cran-reticulate" \
	  "r-cran-testthat r-cran-knitr r-cran-rmarkdown pandoc)" >&2; exit 1; }
	@rm -rf build/r && mkdir -p build/r
	cd build/r && export HEADCOUNT_PYTHON="$(CURDIR)/$(BIN)/python" && \
	  R CMD build ../../r/headcount && R CMD check --no-manual headcount_*.tar.gz
	@grep -qx "Status: OK" build/r/headcount.Rcheck/00check.log

sentences: $(VENV)/.dev  ## list every sentence that a user can see, to be read from top to bottom
	@$(BIN)/python -m tests.sentences

lint: $(VENV)/.dev  ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/.dev  ## build the documentation site into build/site; a warning is an error
	PYTHONPATH=. $(BIN)/zensical build --strict
	@echo "Open build/site/index.html in a browser."

bench: $(VENV)/.dev  ## run a benchmark: make bench NAME=... ARGS=...; without a name, list them
	@$(BIN)/python -m benchmarks $(NAME) $(ARGS)

fuzz: $(VENV)/.dev  ## throw damaged input at headcount: make fuzz CASES=10000 SEED=1
	nice -n 10 $(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED)

extreme: $(VENV)/.dev  ## what check lets pass, protect completes: make extreme CASES=5000 SEED=1
	nice -n 10 $(BIN)/python -m tests.fuzz.extreme $(CASES) --seed $(SEED)

kills: $(VENV)/.dev  ## kill runs of five mechanisms, and comparisons, at random moments: make kills CASES=300 SEED=1
	nice -n 10 $(BIN)/python -m tests.run.kills $(CASES) --seed $(SEED)
	nice -n 10 $(BIN)/python -m tests.run.kills $(CASES) --seed $(SEED) --comparisons

dist: $(VENV)/.runtime $(TOOLS)/.installed  ## build wheels and source archives into dist, check them, try them out
	@$(BIN)/python tools/dist.py dist $(TOOLS)/bin/twine

lock: $(TOOLS)/.installed  ## write the locks in requirements/ anew; UPGRADE=1 takes newer versions
	$(TOOLS)/bin/python requirements/make_lock.py $(if $(UPGRADE),--upgrade)

sbom: $(VENV)/.runtime $(TOOLS)/.installed  ## write a CycloneDX bill of materials to build/sbom.json
	@rm -rf build/sbom && $(PYTHON) -m venv --without-pip build/sbom
	@$(BIN)/python -m pip --python build/sbom/bin/python install --quiet \
	  --disable-pip-version-check --no-deps --require-hashes --requirement requirements/lock.txt
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --output-format JSON --output-file build/sbom.json build/sbom
	@rm -rf build/sbom
	@echo "build/sbom.json: $$(grep -c '"purl"' build/sbom.json) packages"

clean:  ## remove the environment, caches and build output
	rm -rf $(VENV) build dist .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo "headcount needs Python 3.11 or newer and found none on the path." \
	  "Install it, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("headcount needs Python 3.11 \
	or newer; " + sys.executable + " is " + sys.version.split()[0])'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment." \
	  "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.runtime: $(VENV)/.created $(INPUTS)
	@echo "Installing headcount and its locked dependencies into $(VENV) ..."
	@$(BIN)/$(LOCKED) requirements/lock.txt
	@$(BIN)/$(ITSELF)
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@echo "Installing the development tools into $(VENV) ..."
	@$(BIN)/$(LOCKED) requirements/dev.txt
	@touch $@

$(VENV)/.spark: $(VENV)/.runtime requirements/spark.txt
	@echo "Installing PySpark into $(VENV) ..."
	@$(BIN)/$(LOCKED) requirements/spark.txt --no-build-isolation
	@touch $@

$(TOOLS)/.installed: $(VENV)/.created requirements/tools.txt
	@echo "Installing the tools for locks and bills of materials into $(TOOLS) ..."
	@rm -rf $(TOOLS) && $(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/$(LOCKED) requirements/tools.txt
	@touch $@
