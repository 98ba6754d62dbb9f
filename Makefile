# `make demo` and `make test` need Python >= 3.11 and make; everything else they install into .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export UV_PYTHON_DOWNLOADS := never
# What one test compiles, neither the others nor the next run compile again; `make clean` empties the cache.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/performative/tests
COMPILED := PERFORMATIVE_CACHE=$(CACHE)/programs JAX_COMPILATION_CACHE_DIR=$(CACHE) JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
# Tests run short programs once, so compiling is what takes long. These make it three times as fast; `test-slow` goes without.
QUICKLY := XLA_FLAGS="--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

.PHONY: demo lint test test-slow bench compare scaling theory safe lock clean

demo: $(VENV)/.ready
	$(BIN)/performative demo --out runs/demo

lint: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(COMPILED) $(QUICKLY) $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

test-slow: $(VENV)/.ready
	$(COMPILED) $(BIN)/python -m pytest -q -n 2 -m slow

bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks

compare: $(VENV)/.ready
	$(BIN)/python -m benchmarks.compare
	$(BIN)/python -m benchmarks.first_hundred

scaling: $(VENV)/.ready
	$(BIN)/python -m benchmarks.scaling

safe: $(VENV)/.ready
	$(BIN)/python -m benchmarks.safe

theory: $(VENV)/.ready
	$(BIN)/python -m benchmarks.theory

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 must hold, but this is " + sys.version)'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-uv.lock
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes --requirement requirements.lock
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

# The lock holds exact versions and hashes for every platform and Python >= 3.11.
lock: $(VENV)/.ready
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group dev pyproject.toml --output-file requirements.lock
	echo uv | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  - --output-file requirements-uv.lock

clean:
	rm -rf $(VENV) $(CACHE) runs .mypy_cache .pytest_cache .ruff_cache .hypothesis
