# `make demo` and `make test` do all set-up on a fresh machine: a virtual environment in .venv,
# the package with its extras, then a model of molecules with its explanations, or the tests.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
INTERPRETER := .venv/.interpreter

.PHONY: install demo test lint types docs clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[mol,tune,scale,bench,docs,test,export,gp]"
	touch $@

demo: install
	mkdir -p runs/demo
	$(BIN)/pyg-kernels example runs/demo/sulfonamides.csv --overwrite
	$(BIN)/pyg-kernels train runs/demo/sulfonamides.csv --target-columns potency --model wl --epochs 40 \
		--split scaffold --out runs/demo/run --overwrite
	$(BIN)/pyg-kernels predict runs/demo/run runs/demo/sulfonamides.csv --out runs/demo/predictions.csv --overwrite
	$(BIN)/pyg-kernels explain runs/demo/run runs/demo/sulfonamides.csv --limit 10 --out runs/demo/explained --overwrite

# Triton's interpreter runs the CUDA kernels on the CPU; 1 GB that nothing but the tests needs here.
$(INTERPRETER): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[triton]"
	touch $@

test: $(INTERPRETER)
	$(BIN)/python -m tests.compile_kernels
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

docs: install
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv docs/_build docs/generated build *.egg-info
