# The two commands: `make serve` and `make test`. Everything is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MODEL  ?= .models/llama-8b-shape
JOBS   ?= 2

.PHONY: serve chat test lint unit bench bench-gpu clean

serve: $(VENV)/.base
	@$(BIN)/chatserve serve

chat: $(VENV)/.base
	@$(BIN)/chatserve chat

test: lint unit

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

$(VENV)/.base: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python 3.11 or newer with its venv module is needed (Debian: apt install python3-venv)"; exit 1; }
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

bench: $(VENV)/.base
	for each in rtree takeover idle_memory next_turn decode_cpu front_end; do $(BIN)/python -m loadtest.$$each || exit 1; done

# One GPU. MODEL: a folder with a config and a tokenizer, served with random weights.
bench-gpu: $(VENV)/.dev
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[cuda]'
	test -d $(MODEL) || $(BIN)/python -m loadtest.llama_shape
	$(BIN)/python -m loadtest.bench_gpu --model $(MODEL) --out loadtest/results/gpu.json

clean:
	rm -rf $(VENV) .models .mypy_cache .ruff_cache .pytest_cache .hypothesis
