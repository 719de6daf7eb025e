# Every target works first thing on a fresh clone: each makes .venv if it is not there yet.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile

.PHONY: setup demo check test fast lint types imports docs bench clean

setup: $(READY)

# torch comes first and by exact version, so that nothing else decides which build is installed
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[lab,ray,dev,docs]"
	touch $@

demo: $(READY)
	$(BIN)/softmargin demo

# before every commit: all but the slow tests
check: lint types imports fast

test: $(READY)
	$(PYTEST)

fast: $(READY)
	$(PYTEST) -m "not slow"

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports --no-logo

# the site, in site/: open site/index.html
docs: $(READY)
	$(BIN)/sphinx-build -q -W --keep-going -b html -c docs . site

bench: $(READY)
	$(BIN)/softmargin bench --out benchmarks/results

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis softmargin-demo site
