# Needs python3 (3.11 or newer, with venv), make and a package index; everything else goes into .venv.
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two more than there are processors: somewhere, tests always wait for something. Long ones seldom do.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
LONG_WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
RESULTS := .requirements.json
RESULTS_ALONE := .requirements-alone.json
RESULTS_MACHINE := .requirements-machine.json
BREAKER := src/tidegate/machine/breaker.py,src/tidegate/machine/states.py,src/tidegate/machine/epoch.py,src/tidegate/machine/permit.py,src/tidegate/machine/totals.py,src/tidegate/machine/trip.py

# The trust store of the system, and an interpreter that is already here.
export UV_SYSTEM_CERTS = 1
export UV_PYTHON_DOWNLOADS = never

# Tests start hundreds of processes, and each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE
# They make thousands of databases, too; in memory, if there are 3 GB of it to spare, none of them waits for the disk.
MEMORY := $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 3000000 { print "/dev/shm" }')
ifneq ($(MEMORY),)
test test-long check requirements $(RESULTS): export TMPDIR ?= $(MEMORY)
endif

PYTEST := -m pytest -q -o tmp_path_retention_policy=failed
TOGETHER = $(BIN)/python $(PYTEST) -n $(WORKERS) --dist worksteal -m "not long and not alone"
# What measures times runs by itself, so that no other test takes the processor from it; its own file names the mark.
ALONE = $(BIN)/python $(PYTEST) -n 0 -m "alone and not long" $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)
# The tests of the breaker run once, with their coverage.
MACHINE = $(BIN)/python -m coverage run --branch $(PYTEST) -n 0 -m "not long" tests/unit/machine
COMPILE := $(BIN)/uv pip compile -q --universal --generate-hashes --no-annotate --no-header --python-version 3.11 $(if $(UPGRADE),--upgrade)

.DEFAULT_GOAL := help
.PHONY: help run demo tour test test-long check bench soak chaos docs requirements lock clean browser screenshots pictures mutants

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(READY): requirements/dev.txt requirements/uv.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Tidegate needs Python 3.11 or newer with venv (Debian: apt install python3-venv)."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# Where uv has no wheel for the platform, pip installs the same pins.
	$(BIN)/python -m pip install -q --require-hashes -r requirements/uv.txt && \
	  $(BIN)/uv pip sync -q --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.txt requirements/uv.txt || \
	  $(BIN)/python -m pip install -q --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

run: $(READY) ## the server, with its database in var/: page and API at http://127.0.0.1:8321
	@mkdir -p var
	cd var && exec $(abspath $(BIN))/tidegate serve

demo: $(READY) ## three minutes on simulated services: the page is at http://127.0.0.1:8321/demo
	$(BIN)/tidegate demo

tour: $(READY) ## outages played on a virtual clock
	$(BIN)/tidegate simulate --tour

test: $(READY) browser ## every test but the long ones, the breaker's coverage, the requirements
	$(TOGETHER) --ignore=tests/unit/machine --requirements=$(RESULTS)
	$(ALONE) --requirements=$(RESULTS_ALONE)
	$(MACHINE) --requirements=$(RESULTS_MACHINE)
	$(BIN)/python -m coverage report --include=$(BREAKER) --fail-under=95
	$(BIN)/python -m tools.requirements $(RESULTS) $(RESULTS_ALONE) $(RESULTS_MACHINE)

test-long: $(READY) ## the long tests: many examples, many threads, much virtual time; hours of it
	$(BIN)/python $(PYTEST) -n $(LONG_WORKERS) --dist load --maxschedchunk 1 -m "long and not alone and not one_process" --timeout 1800
	$(BIN)/python $(PYTEST) -n 0 -m "long and (alone or one_process)" --timeout 1800

check: $(READY) ## lint, format, types, layers and the unit tests, in a minute or two
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit -q -r src --severity-level medium
	$(TOGETHER) tests/unit

# The page's tests use the system's Chromium, or the one that CHROMIUM names; where apt may install it, it does.
browser: ## the browser that the page's tests need, if it is missing
	@test -n "$$CHROMIUM$$(command -v chromium || command -v chromium-browser || command -v google-chrome)" || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing Chromium for the page's tests" && \
	    { apt-get update -qq; apt-get install -y -qq --no-install-recommends chromium fonts-liberation; } >/dev/null 2>&1; } || \
	  echo "There is no Chromium, and it cannot be installed here: the page's tests are skipped (with CI set, they fail)."

screenshots: $(READY) browser ## pictures of every page, light and dark, narrow and wide, in build/screenshots
	$(BIN)/python -m tools.screenshots

docs: $(READY) ## the documentation as a site that opens from a folder: build/docs/index.html
	$(BIN)/zensical build --clean --strict

pictures: $(READY) browser ## the pictures of the demo that the documentation shows, in docs/pictures
	$(BIN)/python -m tools.demo_pictures

chaos: $(READY) ## real processes under fire, five minutes on each database; CHAOS="--seconds 60 --seed 7" changes that
	$(BIN)/python -m tests.chaos $(CHAOS)

bench: $(READY) ## what calls, jobs, pages and applications cost, beside floors and against limits
	$(BIN)/python -m bench

soak: $(READY) ## an hour of mixed load with faults: nothing may grow; SOAK="--minutes 30 --database postgres"
	$(BIN)/python -m tests.soak $(SOAK)

mutants: $(READY) ## change one thing at a time in core and machine and see whether a unit test fails; FILES= chooses
	nice $(BIN)/python -m tools.mutants $(if $(KEEP),--keep) $(FILES)

requirements: $(RESULTS) ## id, tests and result of each requirement
	@$(BIN)/python -m tools.requirements $(RESULTS) $(RESULTS_ALONE) $(RESULTS_MACHINE)

# Directories are listed too, so that a deleted test counts as a change. A red test is for the table to tell.
$(RESULTS): $(READY) $(shell find src tests \( -name '*.py' -o -type d \) -not -name __pycache__)
	@rm -f $@
	-$(ALONE) --requirements=$(RESULTS_ALONE)
	-$(MACHINE) --requirements=$(RESULTS_MACHINE)
	-$(TOGETHER) --ignore=tests/unit/machine --requirements=$@

lock: $(READY) ## write the pins anew; UPGRADE=1 takes newer versions
	$(COMPILE) --all-extras --group dev pyproject.toml -o requirements/dev.txt
	$(COMPILE) --extra all -c requirements/dev.txt pyproject.toml -o requirements/run.txt
	$(COMPILE) --group build -c requirements/dev.txt -o requirements/build.txt
	$(COMPILE) --group bootstrap -o requirements/uv.txt

clean: ## remove .venv and all that the other targets made, but not the database in var/
	rm -rf $(VENV) $(RESULTS) $(RESULTS_ALONE) $(RESULTS_MACHINE) .cache .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
