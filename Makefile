# Everything from a fresh clone: Python >= 3.11, make, tmux >= 3.2.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# the stamp is newer than the files that decide what is installed
STAMP  := $(VENV)/.installed

# without cached bytecode each of the workers would compile every test anew
export PYTHONDONTWRITEBYTECODE :=
COMPILED := $(VENV)/.compiled

.PHONY: demo test quick torture mutants harnesses harness-canary test-harness bench lint fmt docs package clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --group dev
	touch $@

$(COMPILED): $(STAMP)
	$(BIN)/pytest --collect-only -qq >$@.log || { cat $@.log; exit 1; }
	touch $@

demo: $(STAMP)        ## one row in a graph becomes one wake in a pane, before your eyes
	$(BIN)/wake-bridge demo

test: $(COMPILED)     ## unit, contract, integration, end to end; spread as tests/spread.py says
	$(BIN)/pytest -n 9 --dist loadscope --no-loadscope-reorder

quick: $(STAMP)       ## the inner loop: what waits for no pane
	$(BIN)/pytest -q -n 3 --dist worksteal tests/unit

torture: $(STAMP)     ## kills, typists, hostile text and all else that goes wrong, one table; LONG=1 ONLY=kills SEED=7
	$(BIN)/python -m tests.torture $(if $(LONG),--long) $(if $(SEED),--seed $(SEED)) $(ONLY)

mutants: $(STAMP)     ## a guard taken out of a copy, one after the other: its test must fail by assertion
	$(BIN)/python -m tests.mutants $(ONLY)

harness-canary: $(STAMP) ## the newest version of each program through all states: which rules moved (exit 1); ONLY=claude LAST=3 WRITE=1
	$(BIN)/python -m tests.harness.canary $(ONLY) $(if $(LAST),--last $(LAST)) $(if $(WRITE),--write)

harnesses: $(STAMP)   ## the real programs that test-harness drives, into .harnesses
	$(BIN)/python -m tests.harness.installed $(ONLY)

test-harness: $(STAMP) ## the real programs, offline, in every state; ONLY=codex for one of them
	WAKE_BRIDGE_TEST_ONLY="$(ONLY)" $(BIN)/pytest -m harness -s -p no:randomly tests/harness

bench: $(STAMP)       ## figures, as ratios and counts, into docs/performance.md; AGAINST='…' times another waker beside ours
	$(BIN)/pytest -m benchmark -s -p no:randomly tests/benchmarks --against "$$AGAINST"

lint: $(STAMP)        ## ruff, mypy, floors, dependencies, dead code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/vulture

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(STAMP)        ## what the pages have from the program: modules, keys, names of the contract, holds, the picture of the demo
	$(BIN)/python -m tests.pages

package: $(STAMP)     ## the sdist, and the wheel built from it
	rm -rf dist
	$(BIN)/python -m build --quiet

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
