# make check - while you work: lint, types and the fast tests   make test  - all tests but the federations
# make federations - real SuperLinks, SuperNodes and Ray; CI runs this after make test
# make coverage - the fast tests, and how much they run         make demo  - set up .venv, run the main job
# make bench - speed, as ratios inside one run                  make clean - remove what these made
# make faults - provoke every fault of docs/results/faults.md   make fuzz  - random bytes for every parser
# make package - build the wheel, install it alone, use it      make flare - add NVIDIA FLARE, run its tests
# make docs  - build the documentation into site/               make pictures - the screenshots in docs/images
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := all,docs,dev
# A process per core; tests of one file stay together, because they share what is costly to make.
PARALLEL := -n logical --dist loadfile
# One more for all tests, because those of browsers and commands wait for another process.
PARALLEL_AND_ONE := -n $(shell $(PYTHON) -c "import os; print(os.cpu_count() + 1)") --dist loadfile
FAST := not slow and not federation
# Tests start hundreds of processes: bytecode is kept, also where a machine says otherwise.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup warm browser check test lint fast unit federations unit-nojit coverage demo bench docs pictures flare faults fuzz package clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@

# Compiled kernels, once per machine: what is compiled already is left alone.
warm: $(VENV)/.warm

$(VENV)/.warm: $(VENV)/.ready
	$(BIN)/fedmerit warm-up
	touch $@

check: lint fast

test: lint unit unit-nojit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

# A real browser for the tests of the report page; they are skipped, with a line, where there is none.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { apt-get update -qq; apt-get install -qq -y --no-install-recommends chromium; } >/dev/null 2>&1; } \
	  || echo "no chromium, and it cannot be installed here: the browser tests will be skipped"

fast: warm
	$(BIN)/pytest $(PARALLEL) -m "$(FAST)"

unit: warm browser
	$(BIN)/pytest $(PARALLEL_AND_ONE) -rs -m "not federation"

# Each starts a dozen processes, which mostly wait for each other.
federations: warm
	$(BIN)/pytest $(PARALLEL) -rs -m federation

# The same laws with the compiler off: what the kernels say in plain Python is what they compute.
unit-nojit: setup
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest $(PARALLEL) -m kernel

# Just below what the fast tests reach today (85 %); compiled loops and other processes do not count.
coverage: warm
	$(BIN)/pytest $(PARALLEL) -m "$(FAST)" --cov=fedmerit --cov-report=term:skip-covered --cov-fail-under=83

demo: warm
	$(BIN)/fedmerit demo

bench: warm
	$(BIN)/python -m checks.speed

# The tests that take the screenshots, told to keep them; the notebook, run again.
pictures: setup browser
	FEDMERIT_PICTURES=docs/images $(BIN)/pytest tests/report/test_pictures.py
	$(BIN)/python -m checks.pictures.notebook

# FLARE is not among the extras of `all`: this adds it to .venv and runs what needs it.
flare: setup
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS),nvflare]"
	$(BIN)/pytest tests/nvflare tests/test_examples.py tests/test_four_engines.py -rs

faults: setup
	$(BIN)/python -m checks.faults

fuzz: setup
	$(BIN)/python -m checks.fuzz 20

# Without the tools of development: the wheel alone, then with the extra for Flower. Then a statement of
# an operator is verified by a client, who has the wheel with [ledger], the statement and the public key.
WHEEL = $$(ls build/package/wheels/*.whl)
package:
	rm -rf build/package build/client build/operator build/elsewhere
	$(PYTHON) -m venv build/package
	build/package/bin/pip wheel --quiet --no-deps --wheel-dir build/package/wheels .
	build/package/bin/pip install --quiet --constraint constraints.txt "$(WHEEL)"
	cd build && package/bin/python ../tests/packaged.py core
	build/package/bin/pip install --quiet --constraint constraints.txt "$(WHEEL)[flower]"
	cd build && package/bin/python ../tests/packaged.py flower
	$(PYTHON) -m venv build/client
	build/client/bin/pip install --quiet --constraint constraints.txt "$(WHEEL)[ledger]"
	mkdir -p build/operator build/elsewhere
	cd build/operator && ../client/bin/python ../../tests/packaged.py operator
	cp build/operator/statement.json build/operator/public-key.txt build/elsewhere
	cd build/elsewhere && ../client/bin/python ../../tests/packaged.py client

# The tests build the site as well, so a broken link or a missing page stops `make test`.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
