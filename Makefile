# Everything runs in its own virtual environment; nothing else is needed but Python 3.11+ and make.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
RUNTIME := $(VENV)/.runtime-installed
DEVELOP := $(VENV)/.develop-installed

PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal

.PHONY: demo test soak lint types browser postgres bench clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(RUNTIME)  ## explain some birds, print a table, write out/demo/report.html
	$(BIN)/partswap demo

test: $(DEVELOP) lint types browser postgres  ## lint, types, tests
	$(PYTEST)

soak: $(DEVELOP) browser postgres  ## all tests, with load, kills, a Ray cluster, and ten times the random examples
	$(PYTEST) -m "soak or not soak" --hypothesis-profile soak

lint: $(DEVELOP)  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEVELOP)  ## mypy --strict
	$(BIN)/mypy

bench: $(DEVELOP)  ## benchmarks (run them with nothing else running)
	$(BIN)/python -m benchmarks

# Pages are tested in a real Chromium. It is installed where that can be done without asking (as root, with apt);
# elsewhere the tests that need one say so and are skipped.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium) >/dev/null 2>&1; } || \
	echo "no Chromium here: tests of pages will be skipped"

# Studies are tested on a real PostgreSQL server, which the tests start; installed in the same way.
postgres:
	@command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql) >/dev/null 2>&1; } || \
	echo "no PostgreSQL here: tests that need one will be skipped"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) torch torchvision
	$(PIP) --editable .
	@touch $@

$(DEVELOP): $(RUNTIME)
	$(PIP) --editable '.[dev]'
	@touch $@

clean:  ## remove the virtual environment and what was made
	rm -rf $(VENV) out build .mypy_cache .pytest_cache .ruff_cache .hypothesis
