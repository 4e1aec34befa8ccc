# Thin names for what people type; each target is one line of an ordinary tool.
# Left out, `up` chooses for this machine, and the other targets take what it chose.
ENV ?=
CHOSEN = $(or $(ENV),$(shell cat .tokenworks/chosen 2>/dev/null || echo local))
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup up down preview plan check doctor test lint bench

setup: $(BIN)/.installed

$(BIN)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=..., or install it")'
	@echo "Installing the pinned packages into .venv, which takes about half a minute"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

up: setup
	$(BIN)/tokenworks up $(ENV) --yes

down: setup
	$(BIN)/tokenworks down $(CHOSEN) --yes

preview: setup
	$(BIN)/tokenworks preview $(CHOSEN)

plan: setup
	$(BIN)/tokenworks plan $(CHOSEN)

check: setup
	$(BIN)/tokenworks check

doctor: setup
	$(BIN)/tokenworks doctor $(CHOSEN)

test: setup lint
	tools/install-test-packages.sh
	$(BIN)/pytest --numprocesses auto --dist loadgroup

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	cd ansible && PATH=$(CURDIR)/$(BIN):$$PATH ansible-lint

bench: setup
	$(BIN)/python -m benchmarks.sizing
	$(BIN)/python -m benchmarks.planning
	$(BIN)/python -m benchmarks.preview
	$(BIN)/python -m benchmarks.policy
	$(BIN)/python -m benchmarks.gateway
	$(BIN)/python -m benchmarks.hosts
