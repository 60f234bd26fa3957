# Each target makes the environment it needs; PYTHON chooses the interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test test-slow lint types bench bench-check clean

$(VENV)/.base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt torch
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[cpu,demo]'
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[cpu,demo,dev]'
	touch $@

# Draws the HTML pictures; without npm everything else works, and the tests of the page are skipped.
LIBRARY := engine/tercet/pictures/vendor/cytoscape.min.js
$(LIBRARY): engine/tercet/pictures/fetch.py
	-$(PYTHON) $<

demo: $(VENV)/.base
	$(BIN)/tercet demo

# One process a core and one thread a process: small kernels gain nothing from sharing a core.
test: $(VENV)/.dev $(LIBRARY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[bench]'
	touch $@

# CONFIG is a file or a name in configs/bench, OUT a folder that doesn't exist yet.
CONFIG ?= default
OUT := runs/bench-$(shell date +%Y%m%d-%H%M%S)
bench: $(VENV)/.bench
	$(BIN)/python -m bench run $(CONFIG) --out $(OUT)
	$(BIN)/python -m bench report $(OUT)

bench-check: $(VENV)/.dev
	$(BIN)/python -m bench check

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
