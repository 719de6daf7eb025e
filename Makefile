# Every target works first thing on a fresh clone: each makes .venv if it is not there yet.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile

.PHONY: setup demo check test fast lint types imports docs bench release release-check clean

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
	$(PYTEST) --durations=20 --durations-min=10

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

# wheel and sdist in dist/: the same bytes from the same commit and compiler
release: $(READY)
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -d dist

# the wheel in an empty environment: what it says by itself, calibrate with its small extra, and the
# demo with the large one
release-check: release
	rm -rf build/check
	$(PYTHON) -m venv build/check
	build/check/bin/python -m pip install --quiet -c constraints.txt torch
	build/check/bin/python -m pip install --quiet -c constraints.txt dist/*.whl
	cd build && check/bin/softmargin doctor
	build/check/bin/python -m pip install --quiet -c constraints.txt "$$(echo dist/*.whl)[calibrate]"
	cd build && check/bin/python -c "import numpy as np; row = np.arange(90); \
		np.savez('predictions.npz', logits=2 * np.eye(3)[row % 3], labels=(row + row // 60) % 3)"
	cd build && check/bin/softmargin calibrate predictions.npz
	build/check/bin/python -m pip install --quiet -c constraints.txt "$$(echo dist/*.whl)[lab]"
	cd build && check/bin/softmargin demo --seeds 1

bench: $(READY)
	$(BIN)/softmargin bench --out benchmarks/results

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis softmargin-demo site build dist
