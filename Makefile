# Everything here works from a clean clone with Python 3.11+ and make. `make help` lists the targets.

PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
BIN    := $(VENV)/bin
TORCH  := torch==2.13.0

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint bench bench-bandwidth bench-compile bench-ir bench-load bench-minutes bench-model bench-operators bench-serving bench-torch-compile bench-tune cliffs coverage coverage-cold damaged-files fuzz-schedules mutants mutated-onnx numerics onnx-suite opinfo prove random-graphs random-programs ulp clean

help:            ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stamp is newer than pyproject.toml exactly while the environment is up to date.
$(VENV)/.stamp: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "burnish needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check '$(TORCH)'
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[all,dev]'
	touch $@

venv: $(VENV)/.stamp  ## make .venv with everything

demo: $(VENV)/.stamp  ## compile and run the Fashion-MNIST MLP (DATA=dir: with that data set)
	$(BIN)/python -m burnish demo $(if $(DATA),--data '$(DATA)')

test: $(VENV)/.stamp  ## run every test
	$(BIN)/python -m pytest -n 2 tests $(PYTEST_ARGS)

# mypy takes the package's name from its folder, whatever the clone is called.
lint: $(VENV)/.stamp  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@link=$$(mktemp -d) && trap 'rm -rf "$$link"' EXIT && ln -s '$(CURDIR)' "$$link/burnish" \
	  && cd "$$link" && MYPYPATH='$(CURDIR)/typings' '$(CURDIR)/$(BIN)/python' -m mypy \
	    --config-file '$(CURDIR)/pyproject.toml' --cache-dir '$(CURDIR)/.mypy_cache' -p burnish

$(BENCH)/.stamp: pyproject.toml
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --disable-pip-version-check '$(TORCH)'
	$(BENCH)/bin/python -m pip install --disable-pip-version-check onnxruntime openvino nncf
	$(BENCH)/bin/python -m pip install --disable-pip-version-check -e '.[all]'
	touch $@

# With BENCH_ARGS that choose cases, or a PRECISION, it is a look, which writes nothing.
bench: $(BENCH)/.stamp  ## the whole table beside the peers, into RESULTS.md and the README (PRECISION=bfloat16|float16|int8)
ifdef PRECISION
	$(BENCH)/bin/python -m burnish.benchmarks.reduced --precision $(PRECISION) $(BENCH_ARGS)
else
	$(BENCH)/bin/python -m burnish.benchmarks.run $(BENCH_ARGS)
	$(BENCH)/bin/python docs/build.py README.md benchmarks/RESULTS.md
endif

bench-bandwidth: $(VENV)/.stamp  ## kernels bound by memory beside copies (BENCH_ARGS=...)
	$(BIN)/python -m burnish.benchmarks.memory_bound $(BENCH_ARGS)

bench-compile: $(VENV)/.stamp  ## what cold compilations cost, in seconds and memory (BENCH_ARGS="--models bert")
	$(BIN)/python -m burnish.benchmarks.compile_time $(BENCH_ARGS)
	$(BIN)/python -m burnish.benchmarks.memory $(BENCH_ARGS)

bench-model: $(VENV)/.stamp  ## what the tuner's cost model is worth (BENCH_ARGS=...)
	$(BIN)/python -m burnish.benchmarks.tune_model $(BENCH_ARGS)

bench-minutes: $(VENV)/.stamp  ## what ten minutes of tuning gain whole models (BENCH_ARGS=...)
	$(BIN)/python -m burnish.benchmarks.tune_minutes $(BENCH_ARGS)

bench-operators: $(VENV)/.stamp  ## operators one by one beside eager PyTorch (BENCH_ARGS=...)
	$(BIN)/python -m burnish.benchmarks.operators $(BENCH_ARGS)

bench-ir: $(VENV)/.stamp  ## printing, parsing, primitives, replays, lowering, timed
	$(BIN)/python -m burnish.benchmarks.ir_speed $(BENCH_ARGS)

bench-load: $(BENCH)/.stamp  ## the first result of a saved model in a fresh process, beside the peers
	$(BENCH)/bin/python -m burnish.benchmarks.load_time $(BENCH_ARGS)

bench-serving: $(BENCH)/.stamp  ## requests a second of a server beside ONNX Runtime (BENCH_ARGS="--overload 60")
	$(BENCH)/bin/python -m burnish.benchmarks.serving $(BENCH_ARGS)

bench-torch-compile: $(VENV)/.stamp  ## torch.compile's backend beside Inductor, on models of others (BENCH_ARGS=...)
	$(BIN)/python -m burnish.benchmarks.torch_backend $(BENCH_ARGS)

bench-tune: $(VENV)/.stamp  ## how long tuning takes, beside known figures of TVM (BENCH_ARGS=...)
	$(BIN)/python -m burnish.benchmarks.bench_tune $(BENCH_ARGS)

cliffs: $(VENV)/.stamp  ## random small programs beside the roofline and eager PyTorch (N= SEED= OUT=)
	$(BIN)/python -m burnish.benchmarks.cliffs --count $(or $(N),225) --seed $(or $(SEED),0) \
	  $(if $(OUT),--out '$(OUT)') $(BENCH_ARGS)

coverage: $(VENV)/.stamp  ## models of torchvision, timm and transformers, into docs/coverage.md (MATCH=regex)
	$(BIN)/python -m burnish.tests.models_of_others.run --match '$(MATCH)' --jobs $(or $(JOBS),2)

coverage-cold: $(VENV)/.stamp  ## what the slowest of these cost to compile from nothing, into docs/coverage.md
	$(BIN)/python -m burnish.tests.models_of_others.cold --machine '$(MACHINE)'

damaged-files: $(VENV)/.stamp  ## damaged saved models and caches: right, refused or made anew (N= SEED=)
	$(BIN)/python -m burnish.tests.fuzz.damaged_files --count $(or $(N),2000) --seed $(or $(SEED),0)

fuzz-schedules: $(VENV)/.stamp  ## random schedules, checked (N= SEED= JOBS= PROGRAM= OUT=docs/fuzzing.md)
	$(BIN)/python -m burnish.tests.fuzz.schedules --count $(or $(N),1000) --seed $(or $(SEED),0) \
	  --jobs $(or $(JOBS),2) $(if $(PROGRAM),--program $(PROGRAM)) $(if $(OUT),--out '$(OUT)')

mutants: $(VENV)/.stamp  ## change the product in small ways and see tests fail (N= SEED= WORK= AGAIN=)
	nice $(BIN)/python -m burnish.tests.mutation.run --count $(or $(N),420) --seed $(or $(SEED),0) \
	  --work '$(or $(WORK),.mutants)' $(if $(AGAIN),--again $(AGAIN))

mutated-onnx: $(VENV)/.stamp  ## spoiled ONNX files: a model or an error, nothing else (N= SEED= JOBS=)
	$(BIN)/python -m burnish.tests.fuzz.onnx_files --count $(or $(N),5000) --seed $(or $(SEED),0) \
	  --jobs $(or $(JOBS),2)

prove: $(VENV)/.stamp  ## what the arithmetic of indices proves, asked of z3 (N= SEED= JOBS=)
	$(BIN)/python -m burnish.tests.fuzz.prove --count $(or $(N),100000) --seed $(or $(SEED),0) \
	  --jobs $(or $(JOBS),2)

onnx-suite: $(VENV)/.stamp  ## ONNX's own backend tests, all of them (MATCH=regex; WRITE=1: the list)
	$(BIN)/python -m burnish.tests.frontend.onnx.node_suite --match '$(MATCH)' $(if $(WRITE),--write)

numerics: $(VENV)/.stamp  ## errors of long sums beside PyTorch's, into docs/math.md (a few minutes)
	$(BIN)/python -m burnish.benchmarks.numerics $(or $(NUMERICS_ARGS),--write)

opinfo: $(VENV)/.stamp  ## PyTorch's own database of operators, all samples (OPINFO_ARGS="--only '^add$$'")
	$(BIN)/python -m burnish.tests.frontend.torch.opinfo.run --all --write $(OPINFO_ARGS)

random-graphs: $(VENV)/.stamp  ## random graphs, ours and NNSmith's, beside eager and unfused (N= SEED= JOBS=)
	$(BIN)/python -m burnish.tests.fuzz.graphs --count $(or $(N),1000) --seed $(or $(SEED),0) \
	  --jobs $(or $(JOBS),2)

random-programs: $(VENV)/.stamp  ## random small programs on every CPU of the table (N= SEED= JOBS=)
	$(BIN)/python -m burnish.tests.fuzz.programs --count $(or $(N),1000) --seed $(or $(SEED),0) \
	  --jobs $(or $(JOBS),2)

ulp: $(VENV)/.stamp  ## elementary functions on every float32 there is (ULP_ARGS="--functions erf")
	$(BIN)/python -m burnish.tests.ulp.sweep $(ULP_ARGS)
	$(BIN)/python -m pytest -q tests/ulp tests/tensorir/codegen/test_math.py --update-golden

clean:           ## remove environments, caches and build products
	rm -rf $(VENV) $(BENCH) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
