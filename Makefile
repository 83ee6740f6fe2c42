# make up      from nothing to a Ready cluster on a disposable host, and how to use it
# make test    everything that CI runs: check, fast, hosts
# make check   linters, types, import contracts
# make bench   the figures of docs/performance.md
# make soak    the long tests: many seeded kills, power cuts and edits
# make down    remove the disposable hosts that `make up` made
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAGE := scripts/stage

.PHONY: up test check fast hosts bench soak down venv packages artifacts clean
.DEFAULT_GOAL := help

.PHONY: help
help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

packages:
	@$(STAGE) "host packages" scripts/host-packages

venv: packages
	@$(STAGE) "python environment" $(MAKE) -s --no-print-directory $(VENV)/.done

$(VENV)/.done: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q src
	@touch $@

artifacts: venv
	@$(STAGE) "artifacts" $(BIN)/nidome artifacts fetch
	@$(STAGE) "artifacts of the older release" $(BIN)/nidome artifacts fetch --use kubernetes=1.35.8 \
		kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet

up: venv
	@$(STAGE) "a cluster on a disposable host" $(BIN)/nidome up

down: venv
	$(BIN)/nidome down

test: check fast hosts

check: venv
	@$(STAGE) "ruff check" $(BIN)/ruff check .
	@$(STAGE) "ruff format" $(BIN)/ruff format --check .
	@$(STAGE) "mypy" $(BIN)/mypy
	@$(STAGE) "import contracts" $(BIN)/lint-imports

fast: venv
	@$(STAGE) "fast tests" $(BIN)/pytest tests/fast

hosts: artifacts
	@$(STAGE) "hosts tests" $(BIN)/pytest tests/hosts --durations=15

bench: artifacts
	@$(STAGE) "bench" $(BIN)/python -m bench

soak: artifacts
	@$(STAGE) "soak" env NIDOME_SOAK=1 $(BIN)/pytest tests/hosts --durations=15

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
