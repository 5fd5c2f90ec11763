# Each target makes the environments that it needs first; `make setup` tells what it took and why.

BOOTSTRAP ?= python3
PYTHON := .venv/bin/python
PYTHON_OPENFHE := .venv-openfhe/bin/python
PYTEST_OPTIONS ?= -n 3

# What runs again in .venv-openfhe, with its engine: the suites on real FHE, and the doctests of what they test.
# Of the adversary suite only what runs on a real engine: its statistics do not depend on one.
ENGINE_SUITES := $(wildcard $(addprefix tests/,conformance adversary/test_strategies.py secrecy protocols e2e) \
  $(addprefix src/fheval/,engines protocols))

# Every test that starts a process compiles all of Python's modules again where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE

# Ledgers wait for the disk at every write, and so would the tests; what they must survive are killed processes.
MEMORY := $(shell df -k --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 4000000 { print "/dev/shm" }')
ifneq ($(MEMORY),)
test engines: export TMPDIR ?= $(MEMORY)
endif

# pytest already keeps every core busy, with a process more than two cores for tests that wait; figures are for one thread.
test engines e2e hosts crowd vaults statistics slow bench fuzz schedules: export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help setup setup-main browser demo test engines lint bench e2e hosts crowd vaults databases \
  statistics docs numbers packages slow lock clean

help: ## show this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## make .venv and, where it is needed and a Python 3.10 is found, .venv-openfhe
	@$(BOOTSTRAP) tools/setup.py

setup-main:
	@$(BOOTSTRAP) tools/setup.py --main-only

browser: ## Debian's chromium, in which pages are tested, where it is missing and root may install it
	@if command -v chromium >/dev/null; then \
	  chromium --version --no-sandbox 2>/dev/null; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update \
	  && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null; then \
	  chromium --version --no-sandbox 2>/dev/null; \
	else \
	  echo "chromium is missing and was not installed: the tests of pages in a browser will be skipped"; \
	fi

demo: setup-main ## five hospitals, one private AUC, the pooled truth beside it
	@.venv/bin/fheval demo

test: setup ## the whole suite in .venv, then the engine, protocol and end-to-end suites in .venv-openfhe
	$(PYTHON) -m pytest $(PYTEST_OPTIONS) -m "not slow"
	@if [ -x $(PYTHON_OPENFHE) ]; then \
	  set -x; $(PYTHON_OPENFHE) -m pytest $(PYTEST_OPTIONS) -m "not slow" -k "not seal and not clear" $(ENGINE_SUITES); \
	else \
	  echo "no .venv-openfhe: the suites ran on the engines of .venv only"; \
	fi

engines: setup ## the suites of .venv-openfhe whole: what `make test` ran on seal and the plaintext engine, on this Python
	@if [ -x $(PYTHON_OPENFHE) ]; then $(PYTHON_OPENFHE) -m pytest $(PYTEST_OPTIONS) -m "not slow" $(ENGINE_SUITES); fi

lint: setup-main ## style, formatting and strict types
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy

bench: setup ## the ratios that the documentation states, measured in one run
	@.venv/bin/fheval bench
	@if [ -x .venv-openfhe/bin/fheval ]; then .venv-openfhe/bin/fheval bench --engine openfhe; fi

e2e: setup-main ## a consortium of real processes on loopback, and streams that break
	$(PYTHON) -m pytest --durations=5 tests/direct/test_streams.py tests/direct/test_loopback.py tests/direct/test_committee.py tests/direct/test_hostile.py tests/direct/test_intruders.py tests/direct/test_hostile_state.py tests/flower/test_loopback.py

hosts: setup-main ## docs/deploy.md's commands on hosts in network namespaces, with delay, loss, cuts and restarts
	@if command -v ip >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update \
	  && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends iproute2 >/dev/null; then :; \
	else echo "iproute2 is missing and was not installed: the tests on hosts will be skipped"; fi
	$(PYTHON) -m pytest --durations=5 tests/hosts

crowd: setup-main ## a thousand members on one hub: memory, time per member, fifty rounds, connections that vanish
	$(PYTHON) -m pytest tests/direct/test_crowd.py

vaults: setup-main ## vaults as processes, under load, and killed at every write; metrics, groups, committees and checkers
	$(PYTHON) -m pytest $(PYTEST_OPTIONS) tests/vault/test_load.py tests/vault/test_kill.py tests/cli/test_vault.py \
	  tests/vault/test_metrics.py $(addprefix tests/vault/test_,groups.py committee.py checking.py)

databases: setup-main ## a real PostgreSQL with five million rows; Debian's package, where root may install it
	@if command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update \
	  && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends postgresql >/dev/null; then :; \
	else echo "PostgreSQL is missing and was not installed: its tests will be skipped"; fi
	$(PYTHON) -m pytest -s tests/databases

.PHONY: examples
examples: setup-main ## the paper's pipeline: models trained with Flower, a private AUC after every round, in .venv-examples
	@$(BOOTSTRAP) tools/setup.py --examples
	.venv-examples/bin/python tools/examples.py

statistics: setup-main ## the attack command, ablations, and attacks whose rates are counted
	$(PYTHON) -m pytest $(PYTEST_OPTIONS) $(addprefix tests/adversary/test_,ablation.py attack_command.py several_fields.py small_field.py guessing.py nudging.py examples.py)

docs: setup-main browser ## the documentation site, in build/site; notebooks are run, and pages tried in a browser
	@$(BOOTSTRAP) tools/setup.py --main-only --docs
	$(PYTHON) -m tools.docs.build
	FHEVAL_SITE_IS_FRESH=1 $(PYTHON) -m pytest -n 0 tests/site tests/browser

numbers: setup-main ## run attack, bench and reproduce, and keep their figures for the site; DATA=folder of the paper's data
	$(PYTHON) -m tools.docs.numbers --data $(or $(DATA),data)

# `make fuzz SECONDS=600`; `make schedules SCRIPTS=5000 REAL=12`. A failing script or case says how to run it again.
.PHONY: fuzz schedules
SECONDS ?= 60
SCRIPTS ?= 240
REAL ?= 2

fuzz: setup ## hostile messages, ciphertexts, keys and files for SECONDS (60), each kind in a process of its own
	cd tests && ../$(PYTHON) -m fuzz --seconds $(SECONDS)
	@if [ -x $(PYTHON_OPENFHE) ]; then \
	  cd tests && ../$(PYTHON_OPENFHE) -m fuzz --only ciphertexts-openfhe --seconds $$(( $(SECONDS) / 8 )); \
	fi

schedules: setup ## SCRIPTS (240) random scripts of faults against a model, and REAL (2) on each engine
	cd tests && ../$(PYTHON) -m fuzz.schedules --scripts $$(( $(SCRIPTS) - $(SCRIPTS) / 5 ))
	cd tests && for rate in 0.01 0.03 0.10; do \
	  ../$(PYTHON) -m fuzz.schedules --faults $$rate --scripts $$(( $(SCRIPTS) / 15 )) || exit 1; \
	done
	cd tests && ../$(PYTHON) -m fuzz.schedules --engine seal --scripts $(REAL)
	@if [ -x $(PYTHON_OPENFHE) ]; then \
	  cd tests && ../$(PYTHON_OPENFHE) -m fuzz.schedules --engine openfhe --scripts $(REAL); \
	fi

.PHONY: dist
dist: setup-main ## wheels and sdists of both distributions in dist/, checked as an index would
	@$(BOOTSTRAP) tools/setup.py --main-only --docs
	rm -rf dist
	$(PYTHON) -m hatchling build --directory dist
	cd lab && ../$(PYTHON) -m hatchling build --directory ../dist
	.venv-docs/bin/twine check --strict dist/*

packages: setup-main ## wheels and sdists of both distributions, in empty environments of every Python that is there
	$(PYTHON) -m pytest tests/packaging

slow: setup ## statistics, long simulations and benchmarks that `make test` leaves out
	$(PYTHON) -m pytest -m slow
	@if [ -x $(PYTHON_OPENFHE) ]; then $(PYTHON_OPENFHE) -m pytest -m slow tests/protocols/test_committee_equals_padded.py; fi

# UV is part of .venv; when a lock no longer fits a project file, set-up fails, but only after it has installed uv.
# `make lock` changes as little as it can; `make lock UPGRADE=--upgrade` takes the newest versions that fit.
UV_COMPILE = .venv/bin/uv pip compile pyproject.toml lab/pyproject.toml --quiet $(UPGRADE) \
  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate

lock: ## write the lock files anew from pyproject.toml and lab/pyproject.toml
	@[ -x .venv/bin/uv ] || $(BOOTSTRAP) tools/setup.py --main-only || [ -x .venv/bin/uv ]
	$(UV_COMPILE) --universal --python-version 3.11 \
	  --extra openfhe --extra flower --extra databases --extra baselines --extra dev --extra lock \
	  --output-file locks/venv.txt
	$(UV_COMPILE) --universal --python-version 3.11 --extra flower --extra examples --output-file locks/examples.txt
	$(UV_COMPILE) --python-version 3.10 --python-platform x86_64-manylinux_2_35 \
	  --extra openfhe --extra dev \
	  --output-file locks/venv-openfhe.txt
	.venv/bin/uv pip compile --group pyproject.toml:docs --quiet $(UPGRADE) --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --output-file locks/docs.txt
	@! grep -n '://' locks/*.txt

clean: ## remove the environments and everything that was built
	rm -rf .venv .venv-openfhe .venv-docs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src lab tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
