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

# The trust store of the system, and an interpreter that is already here.
export UV_SYSTEM_CERTS = 1
export UV_PYTHON_DOWNLOADS = never

# Tests start hundreds of processes, and each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE
# They make thousands of databases, too; in memory, if there are 3 GB of it to spare, none of them waits for the disk.
MEMORY := $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 > 3000000 { print "/dev/shm" }')
ifneq ($(MEMORY),)
test test-full test-long check requirements $(RESULTS): export TMPDIR ?= $(MEMORY)
endif

PYTEST := -m pytest -q -o tmp_path_retention_policy=failed
TOGETHER = $(BIN)/python $(PYTEST) -n $(WORKERS) --dist worksteal
# `full` is for make test-full, `long` for make test-long, and `alone` measures times: see tests/tiers.py.
QUICK := -m "not full and not long and not alone"
# Pure rules and tables: no process, no socket, no sleep.
PURE := $(addprefix tests/unit/,accounts admin basics faults guard jobs notices rules serialization settings \
	simulation store targets web)
COMPILE := $(BIN)/uv pip compile -q --universal --generate-hashes --no-annotate --no-header --python-version 3.11 $(if $(UPGRADE),--upgrade)

.DEFAULT_GOAL := help
.PHONY: help run demo tour test test-full test-long check bench peers soak chaos overload redis docs requirements lock clean browser pgbouncer screenshots pictures mutants house

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

test: $(READY) browser pgbouncer ## a representative of everything, and the table of requirements, in five minutes
	$(TOGETHER) $(QUICK) --requirements=$(RESULTS)
	$(BIN)/python -m tools.requirements $(RESULTS)

test-full: $(READY) browser pgbouncer ## every test but the long ones, in 20 minutes
	$(TOGETHER) -m "not long and not alone"
	$(BIN)/python $(PYTEST) -n 0 -m "alone and not long" $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)

test-long: $(READY) pgbouncer ## the long tests: many examples, many threads, much virtual time; hours of it
	$(BIN)/python $(PYTEST) -n $(LONG_WORKERS) --dist load --maxschedchunk 1 -m "long and not alone and not one_process" --timeout 1800
	$(BIN)/python $(PYTEST) -n 0 -m "long and (alone or one_process)" --timeout 1800

check: $(READY) ## lint, format, types, layers, words, prose and the unit tests, in a minute
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.words
	$(BIN)/bandit -q -r src --severity-level medium
	$(BIN)/python -m tools.prose
	$(TOGETHER) $(QUICK) $(PURE)

# The page's tests use the system's Chromium, or the one that CHROMIUM names; where apt may install it, it does.
browser: ## the browser that the page's tests need, if it is missing
	@test -n "$$CHROMIUM$$(command -v chromium || command -v chromium-browser || command -v google-chrome)" || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing Chromium for the page's tests" && \
	    { apt-get update -qq; apt-get install -y -qq --no-install-recommends chromium fonts-liberation; } >/dev/null 2>&1; } || \
	  echo "There is no Chromium, and it cannot be installed here: the page's tests are skipped (with CI set, they fail)."

# Debian keeps it where only root looks. It is not to run as a service here: the tests start their own.
pgbouncer: ## the connection pooler that some tests need, if it is missing
	@test -n "$$PGBOUNCER$$(PATH=$$PATH:/usr/sbin command -v pgbouncer)" || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing PgBouncer for the tests" && \
	    { apt-get update -qq; RUNLEVEL=1 apt-get install -y -qq --no-install-recommends pgbouncer; } >/dev/null 2>&1; } || \
	  echo "There is no PgBouncer, and it cannot be installed here: tests behind it are skipped (with CI set, they fail)."

screenshots: $(READY) browser ## pictures of every page, light and dark, narrow and wide, in build/screenshots
	$(BIN)/python -m tools.screenshots

docs: $(READY) ## the documentation as a site that opens from a folder: build/docs/index.html
	$(BIN)/zensical build --clean --strict
	$(BIN)/python -m tools.docs_index build/docs

pictures: $(READY) browser ## the pictures of packages, of an outage and of the demo that the documentation shows, in docs/pictures
	$(BIN)/python -m tools.architecture
	$(BIN)/python -m tools.outage_picture
	$(BIN)/python -m tools.demo_pictures

# With WRITE=1, commands that measure write their tables into docs/explanation and the README: see tools/figures.py.
chaos: $(READY) ## inject faults into real processes, five minutes on each database; CHAOS="--seconds 60 --seed 7" changes that
	$(BIN)/python -m tests.chaos $(CHAOS)

overload: $(READY) ## recovery from an outage with a backlog, on a virtual clock
	$(BIN)/python -m tests.overload

bench: $(READY) ## what calls, jobs, pages and applications cost, beside floors and against limits
	$(BIN)/python -m bench

# The other libraries have an environment of their own, so that none of them is ever a dependency.
PEERS_VENV := build/peers
$(PEERS_VENV)/.ready: $(READY) requirements/peers.txt
	rm -rf $(PEERS_VENV)
	$(BIN)/uv venv -q --python $(BIN)/python $(PEERS_VENV)
	$(BIN)/uv pip sync -q --compile-bytecode --python $(PEERS_VENV)/bin/python --require-hashes requirements/peers.txt
	@touch $@

redis: ## the Redis server that some queues of `make peers` need, if it is missing
	@command -v redis-server >/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "Installing Redis for the comparison of queues" && \
	    { apt-get update -qq; apt-get install -y -qq --no-install-recommends redis-server; } >/dev/null 2>&1; } || \
	  echo "There is no redis-server, and it cannot be installed here: queues on Redis are skipped."

peers: $(PEERS_VENV)/.ready redis ## Tidegate beside other breakers, retry decorators and queues; PEERS="queues --rounds 1" chooses
	PYTHONPATH=src:. PATH="$(abspath $(PEERS_VENV))/bin:$$PATH" $(PEERS_VENV)/bin/python -m bench.peers $(PEERS)

soak: $(READY) ## an hour of mixed load with faults: nothing may grow; SOAK="--minutes 30 --database postgres"
	$(BIN)/python -m tests.soak $(SOAK)

mutants: $(READY) ## change one thing at a time in faults, guard and rules and see whether a unit test fails; FILES= chooses
	nice $(BIN)/python -m tools.mutants $(if $(KEEP),--keep) $(FILES)

house: $(READY) ## figures of the layout of src against their targets; HOUSE="--list cycles" lists what was counted
	@$(BIN)/python -m tools.house $(HOUSE)

requirements: $(RESULTS) ## id, tests and result of each requirement
	@$(BIN)/python -m tools.requirements $(RESULTS)

# Directories are listed too, so that a deleted test counts as a change. A red test is for the table to tell.
$(RESULTS): $(READY) $(shell find src tests \( -name '*.py' -o -type d \) -not -name __pycache__)
	@rm -f $@
	-$(TOGETHER) $(QUICK) --requirements=$@

lock: $(READY) ## write the pins anew; UPGRADE=1 takes newer versions
	$(COMPILE) --all-extras --group dev pyproject.toml -o requirements/dev.txt
	$(COMPILE) --extra all -c requirements/dev.txt pyproject.toml -o requirements/run.txt
	$(COMPILE) --group build -c requirements/dev.txt -o requirements/build.txt
	$(COMPILE) --group bootstrap -o requirements/uv.txt
	$(COMPILE) --extra cli --extra queue --extra postgres --group peers pyproject.toml -o requirements/peers.txt

clean: ## remove .venv and all that the other targets made, but not the database in var/
	rm -rf $(VENV) $(RESULTS) .cache .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: dist release hooks
dist: $(READY) ## the wheel, the sdist and the bill of materials of this commit, in dist/
	$(BIN)/python -m tools.release

release: $(READY) ## check this commit and build it as VERSION=x.y.z into dist/; prints the command that tags it
	@test -n "$(VERSION)" || { echo "Which version? make release VERSION=x.y.z"; exit 2; }
	$(BIN)/python -m tools.release '$(VERSION)'

hooks: $(READY) ## install the git hooks that .pre-commit-config.yaml lists
	$(BIN)/prek install

.PHONY: planted
ifneq ($(MEMORY),)
planted: export TMPDIR ?= $(MEMORY)
endif
planted: $(READY) browser ## plant 31 bugs, one at a time, and see make test's tests catch each
	$(BIN)/python -m tools.planted_bugs $(BUGS)
