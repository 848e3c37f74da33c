# In: python3, and Java and Maven where a target says so. Out: .venv, and what each target prints.
# `make` alone lists the targets. Everything runs from the repository's root; nothing is installed outside
# .venv except Debian packages that are missing (see tools/java) and only where that needs no password.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup kernels quick docs java chromium pictures demo sites test check torture attack cluster bench kafka postgres format pins clean

PYTHON ?= python3
BIN := .venv/bin
RUNS := .venv/.runs
READY := .venv/.ready
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps

SECONDS ?= 30
KAFKA_PORT ?= 9092
KAFKA_DATA ?= .kafka
POSTGRES_PORT ?= 5433
POSTGRES_DATA ?= .postgres
ARGS ?=

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

setup: $(READY) ## build .venv with all that development needs, from the pinned requirements

# --no-deps: the pinned files hold the whole closure, so pip has nothing to work out; `pip check` proves it.
# setuptools is pinned with what development adds, and builds the editable install.
$(RUNS): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1): install it, or name one with make PYTHON=..."; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { [ "$$(id -u)" = 0 ] && apt-get -qq update && apt-get -qq install -y python3-venv; } >/dev/null 2>&1 || \
	  { sudo -n apt-get -qq update && sudo -n apt-get -qq install -y python3-venv; } >/dev/null 2>&1 || \
	  { echo "$(PYTHON) cannot make virtual environments: install the package python3-venv"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "making .venv"; $(PYTHON) -m venv --clear .venv; }
	@echo "installing what Anabranch needs to run"
	@$(PIP) --no-compile -r requirements.txt $$(grep '^setuptools==' requirements-dev.txt)
	@$(PIP) --no-build-isolation -e .
	@touch $@

$(READY): $(RUNS) requirements-dev.txt
	@echo "installing what development needs"
	@$(PIP) --no-compile -r requirements-dev.txt
	@$(BIN)/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true  # in parallel, pip would take one core
	@$(BIN)/python -m pip check
	@touch $@

kernels: $(READY)
	@$(BIN)/python -m anabranch.families.warm_up

java: ## make sure that Java 17 or newer is there
	@tools/java

docs: setup ## build the site into site/, and check its links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

chromium: ## make sure that Chromium is there, for the tests of the dashboard
	@tools/chromium

pictures: setup chromium ## make the pictures of docs/dashboard.md
	$(BIN)/python -m tools.screenshots

demo: $(RUNS) java ## take the tour: every kind of query for SECONDS=30 seconds, and a dashboard (ARGS=--no-browser)
	$(BIN)/anabranch demo --seconds $(SECONDS) $(ARGS)

sites: $(RUNS) java ## run three sites, and print what travelled beside what mirroring would have cost
	@rm -rf examples/sites/sites examples/sites/network.sqlite*
	$(BIN)/python examples/sites/generate.py
	$(BIN)/anabranch sites up examples/sites/network.toml --once --in-process
	$(BIN)/python examples/sites/compare.py

test: kernels java ## run the tests (ARGS="-k nearest" for some of them)
	@tools/chromium || true  # without it the tests of the dashboard are skipped
	@tools/test $(ARGS)

quick: kernels ## run the tests without Spark in less than a minute, with fewer drawn cases
	@ANABRANCH_QUICK=1 $(BIN)/pytest -m "not spark and not slow and not browser and not kafka" -n 2 $(ARGS)

check: setup ## lint, formatting, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

torture: kernels java ## kill the stream 50 times, compare what it delivered
	ANABRANCH_KILLS=50 $(BIN)/pytest tests/spark/test_kills.py $(ARGS)

attack: kernels java ## attack a running service for some minutes, while a bystander checks its rows
	$(BIN)/python -m tools.attack

cluster: kernels java ## run a job on a standalone cluster of a master and two workers
	ANABRANCH_CLUSTER=1 $(BIN)/pytest tests/spark/test_cluster.py $(ARGS)

bench: kernels java ## measure, JSON out
	$(BIN)/python -m bench.pipeline $(ARGS)

kafka: java ## run a Kafka broker on 127.0.0.1:KAFKA_PORT until Ctrl-C (needs Maven)
	tools/kafka start --port $(KAFKA_PORT) --data $(KAFKA_DATA)

postgres: ## run a throwaway PostgreSQL on 127.0.0.1:POSTGRES_PORT until Ctrl-C (Debian's packages)
	tools/postgres start --port $(POSTGRES_PORT) --data $(POSTGRES_DATA)

format: setup ## format the code, fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What .venv holds becomes the pins: first what the package itself needs, then what development adds.
pins: ## write the requirements files from what .venv holds
	$(BIN)/pip freeze --all --exclude pip --exclude anabranch > .venv/all.txt
	$(BIN)/pip install --quiet --dry-run --ignore-installed --no-build-isolation -c .venv/all.txt --report .venv/report.json .
	@$(BIN)/python -c 'import json; \
	  found = {item["metadata"]["name"].lower().replace("_", "-") for item in json.load(open(".venv/report.json"))["install"]}; \
	  pins = open(".venv/all.txt").read().split(); \
	  runs = [pin for pin in pins if pin.split("==")[0].lower().replace("_", "-") in found]; \
	  rest = [pin for pin in pins if pin not in runs]; \
	  head = "# Written by `make pins`: {}\n"; \
	  open("requirements.txt", "w").write(head.format("what the package needs to run.") + "\n".join(runs) + "\n"); \
	  open("requirements-dev.txt", "w").write(head.format("what development adds.") + "\n".join(["-r requirements.txt", *rest]) + "\n")'

clean: ## remove what builds and runs leave behind (.venv stays)
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .kafka .postgres
	rm -rf spark-warehouse metastore_db derby.log artifacts
	find src tests bench examples tools -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
