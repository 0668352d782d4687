# The two commands: `make serve` and `make test`. Everything is installed into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MODEL  ?= .models/llama-8b-shape
JOBS   ?= 2
URL    ?= http://127.0.0.1:8000
# Compiling every file of torch and transformers takes a minute; Python compiles those that are imported, and keeps them.
PIP    := -q --disable-pip-version-check --no-compile
unexport PYTHONDONTWRITEBYTECODE
BENCHES := bench_client rtree takeover idle_memory next_turn decode_cpu growth picture server_ceiling memory_figures draw_memory cpu_loads

.PHONY: serve chat test lint unit model bench bench-gpu smoke soak loadtest clean

serve: $(VENV)/.base
	@$(BIN)/chatserve serve

chat: $(VENV)/.base
	@$(BIN)/chatserve chat

test: $(VENV)/.dev
	@$(MAKE) --no-print-directory model
	@$(MAKE) --no-print-directory -j2 lint smoke
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# A thread each: two processes whose products take two threads on two cores wait for each other more than they compute.
unit: $(VENV)/.dev model
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations 15

# Before the tests: two processes of them would both fetch it, and no test's time limit is made for that.
model: $(VENV)/.base
	@$(BIN)/chatserve demo

$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python 3.11 or newer with its venv module is needed (Debian: apt install python3-venv)"; exit 1; }

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install $(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install $(PIP) -e '.[dev]'
	@touch $(VENV)/.base $@

# Minutes, on an idle machine: what it measures stands in loadtest/README.md.
bench: $(VENV)/.base
	$(BIN)/python -m pip install $(PIP) -e '.[loadtest,compare]'
	for each in $(BENCHES); do $(BIN)/python -m loadtest.$$each || exit 1; done
	$(BIN)/chatserve bench report loadtest/results/cpu_*.json --out loadtest/results/cpu.html

# A minute of users who hold conversations, in both modes; any error is an exit status.
smoke: $(VENV)/.dev model
	OMP_NUM_THREADS=1 $(BIN)/python -m loadtest.smoke --seconds 60

soak: $(VENV)/.base
	$(BIN)/python -m loadtest.soak --minutes 30

# Locust's page, for the server at URL.
loadtest: $(VENV)/.base
	$(BIN)/python -m pip install $(PIP) -e '.[loadtest]'
	$(BIN)/locust -f loadtest/locustfile.py --host $(URL)

# One GPU. MODEL: a folder with a config and a tokenizer, served with random weights.
bench-gpu: $(VENV)/.dev
	$(BIN)/python -m pip install $(PIP) -e '.[cuda]'
	test -d $(MODEL) || $(BIN)/python -m loadtest.llama_shape
	$(BIN)/python -m loadtest.bench_gpu --model $(MODEL) --out loadtest/results/gpu.json

clean:
	rm -rf $(VENV) .models .artefacts build .mypy_cache .ruff_cache .pytest_cache .hypothesis
