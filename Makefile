# make up    everything from nothing to a Ready cluster     make test   everything that CI runs
# make check linters and types                              make bench  the figures of docs/performance.md
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: venv check fast
venv: $(VENV)/.done
$(VENV)/.done: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --require-hashes -r requirements.lock
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	@touch $@

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fast: venv
	$(BIN)/pytest tests/fast
