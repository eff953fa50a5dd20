# Few verbs. `make demo` and `make test` need Python 3.11 or newer, make and git, and nothing else.

.DEFAULT_GOAL := help
.PHONY: help demo team test test-full test-ray check bench peers backends frameworks docs req venv lock web pictures

# The first Python that is new enough, and how many tests run at once: more than two cores, since
# tests of terminals, servers and clocks wait.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
JOBS ?= 3
RAY_TESTS = tests/unit/executors tests/unit/context/test_batch_summaries.py tests/cli/test_import_engines.py \
	tests/cli/test_summarize_engines.py tests/unit/experiments/test_batch_reruns.py tests/cli/test_rerun_engines.py

# Bytecode is kept, whatever the caller's environment says: the tests start hundreds of processes,
# and each would compile what it imports.
export PYTHONDONTWRITEBYTECODE :=

bin := .venv/bin
ready := .venv/.stamp
uv = $(shell uv --version >/dev/null 2>&1 && echo uv || echo $(bin)/uv)
compile = $(uv) pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" $(ARGS)

# The extras that `all` leaves out, because each installs more than 100 MB.
large = --extra claude-agent-sdk --extra google-adk

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 20

demo: $(ready) ## two agents meet in a cafe, offline
	@$(bin)/harken demo

team: $(ready) ## three users on two services: needs PostgreSQL and curl
	@$(bin)/python -m tools.team_walk

test: $(ready) ## the tests
	$(bin)/python -m pytest -n $(JOBS) --dist loadfile -m "not full"

test-full: $(ready) ## the tests, with the long forms
	HARKEN_TEST_FORKS=0 $(bin)/python -m pytest -n $(JOBS) --dist loadfile --hypothesis-profile=full

test-ray: .venv-ray/.stamp ## the tests of batch work on Ray, in .venv-ray, from its lock
	.venv-ray/bin/python -m pytest -q $(RAY_TESTS)

check: $(ready) ## style, types, layers, size
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy
	$(bin)/lint-imports --no-logo
	$(bin)/python tools/size.py
	$(bin)/python tools/check_names.py

bench: $(ready) ## measure, and write benchmarks/results.md
	$(bin)/python -m benchmarks

peers: .venv-peers/.stamp ## .venv-peers, from its lock: what `python -m benchmarks peers` runs beside

backends: .venv-backends/.stamp ## .venv-backends, from its lock: Phoenix, which the long tests send spans to

frameworks: .venv-frameworks/.stamp ## .venv-frameworks, from its lock: large agent frameworks, which the long tests use

docs: $(ready) ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build --strict

req: $(ready) ## which requirements the tests prove: make req REQ="S0-01..S0-50 S4-53"
	@$(bin)/python tools/req.py $(REQ)

web: ## src/harken/web, the page of `harken ui`: needs Node 20.19 or newer
	cd web && npm ci --no-fund --no-audit && npm run build

pictures: $(ready) ## docs/images, from the walks of tests/web: needs Chromium
	HARKEN_PICTURES=$(CURDIR)/docs/images $(bin)/python -m pytest -q tests/web/test_walks.py

venv: $(ready) ## .venv, from the lock; the others do this by themselves

lock: $(bin)/.uv ## requirements/*.txt, from pyproject.toml: make lock ARGS=--upgrade
	$(compile) pyproject.toml -o requirements/base.txt
	$(compile) pyproject.toml --extra all --group dev -c requirements/base.txt -o requirements/dev.txt
	$(compile) pyproject.toml $(large) --group frameworks -c requirements/base.txt -o requirements/frameworks.txt
	$(compile) --group peers -o requirements/peers.txt
	$(compile) pyproject.toml --extra ray --extra tables --group ray -c requirements/dev.txt -o requirements/ray.txt
	$(compile) --group backends -o requirements/backends.txt
	$(compile) --group bootstrap -o requirements/uv.txt

# The build backend is in the lock, so that installing Harken itself asks no index for anything.
# Bytecode is compiled here once: `harken` starts fast also where Python may not write it later.
$(ready): requirements/dev.txt pyproject.toml | $(bin)/.uv
	$(uv) pip install --quiet --python $(bin)/python --compile-bytecode --require-hashes -r requirements/dev.txt
	$(uv) pip install --quiet --python $(bin)/python --no-deps --no-build-isolation -e .
	@touch $@

.venv-peers/.stamp: requirements/peers.txt | $(bin)/python
	$(bin)/python -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --no-input --require-hashes -r requirements/peers.txt
	@touch $@

.venv-ray/.stamp: requirements/ray.txt pyproject.toml | $(bin)/python
	$(bin)/python -m venv .venv-ray
	.venv-ray/bin/python -m pip install --quiet --no-input --require-hashes -r requirements/ray.txt
	.venv-ray/bin/python -m pip install --quiet --no-input --no-deps --no-build-isolation -e .
	@touch $@

.venv-backends/.stamp: requirements/backends.txt | $(bin)/python
	$(bin)/python -m venv .venv-backends
	.venv-backends/bin/python -m pip install --quiet --no-input --require-hashes -r requirements/backends.txt
	@touch $@

.venv-frameworks/.stamp: requirements/frameworks.txt | $(bin)/python
	$(bin)/python -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet --no-input --require-hashes -r requirements/frameworks.txt
	@touch $@

$(bin)/.uv: | $(bin)/python
	@uv --version >/dev/null 2>&1 || $(bin)/python -m pip install --quiet --no-input --require-hashes -r requirements/uv.txt
	@touch $@

$(bin)/python:
	$(or $(PYTHON),$(error Harken needs Python 3.11 or newer: try make PYTHON=python3.12)) -m venv .venv
