# Two commands: `make demo` (the whole recipe on the embedded default) and `make test`. Both set up what they need.
.DEFAULT_GOAL := help
export OMP_NUM_THREADS := 1
PY := .venv/bin/python
RUN ?= runs/demo

.PHONY: help setup demo test check unit docs perf clean-runs

help:
	@echo "make demo   set up, then run the whole recipe: collect, sft, mine, rl, eval, report (about 10 minutes)"
	@echo "make test   set up, then lint, types, unit, browser and end-to-end tests"
	@echo "make check  lint and types only     make unit  unit tests only     make perf  speed ratios"

setup:
	@scripts/setup.sh

demo: setup
	$(PY) -m rmsweb demo -o $(RUN)

check: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

unit: setup
	$(PY) -m pytest -m "not browser and not slow and not e2e and not gpu" --timeout 120 -n 2 --dist loadfile

test: check
	$(PY) -m pytest -m "not gpu" --timeout 600 --durations 15 -n 2 --dist loadfile

perf: setup
	@for f in perf/*.py; do echo "== $$f"; $(PY) $$f; done
