# The front door. Every target does the set-up it needs.
TORCH ?= 2.11.0
VENV := .venv
PRESET ?= release
BUILD := build/$(PRESET)
PYTHON := $(VENV)/bin/python
TORCH_PINNED := 2.11.0
STAMP := $(VENV)/.ready-torch-$(TORCH_PINNED)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
PACKAGE := PYTHONPATH=$(CURDIR)/$(BUILD)/python
WHEEL = $(firstword $(wildcard dist/samebits-*.whl))
.DEFAULT_GOAL := help
.PHONY: help setup build test demo lint asan bench wheel test-torch docs gpu-build gpu-test gpu-evidence clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## system packages (as root), .venv, torch
$(STAMP): requirements-dev.txt tools/debian-packages.txt tools/setup.sh
	tools/setup.sh $(VENV) $(TORCH_PINNED)
	@touch $@

build: setup  ## C++ library, command, tests and torch binding (PRESET=release, ci or cuda)
	cmake --preset $(PRESET) -DSAMEBITS_TORCH=ON
	cmake --build --preset $(PRESET)

test: build  ## everything: C++ tests, then Python tests
	ctest --preset $(PRESET) -j $$(nproc) --progress
	$(PACKAGE) $(PYTHON) -m pytest

demo: build  ## train, sample and recompute: how many log-probs differ (demo-out/)
	$(PACKAGE) $(PYTHON) -m samebits.demo $(DEMO_ARGS)

lint: setup  ## formatting, spelling and house lints over all files
	pre-commit run --all-files

asan: setup  ## C++ tests under AddressSanitizer and UBSan
	cmake --preset dev
	cmake --build --preset dev
	ctest --preset dev -j $$(nproc) --progress

bench: build  ## speed tables and JSON
	cmake --preset $(PRESET) -DSAMEBITS_BUILD_BENCH=ON
	cmake --build --preset $(PRESET)
	$(PACKAGE) $(PYTHON) -m samebits.bench --op logp --tokens 1 64 1024 --vocab 131072 --dtype fp32 bf16 \
	  --mode fwd fwdbwd --threads 1 2 --seconds 5 --json bench/results/logp.json $(BENCH_ARGS)
	$(PACKAGE) $(PYTHON) -m samebits.bench --op call --dtype fp32 --mode fwd fwdbwd --json bench/results/call.json
	$(PACKAGE) $(PYTHON) -m samebits.bench --op masked_sum masked_mean ratio clipped_ratio_loss kl_k3 \
	  --tokens 100000 --dtype fp32 --mode fwd fwdbwd --json bench/results/terms.json
	$(BUILD)/bench/samebits_bench --benchmark_out=bench/results/cpp.json --benchmark_out_format=json

wheel: setup  ## dist/samebits-*.whl
	rm -f dist/samebits-*.whl
	$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w dist .

test-torch: wheel  ## Python tests with another torch: make test-torch TORCH=x.y.z
	tools/test_torch.sh $(TORCH) $(WHEEL)

docs: setup  ## the documentation site, in build/docs/index.html; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict  # with --quiet it would not see its own warnings

gpu-build: setup
	cmake --preset $(PRESET) -DSAMEBITS_TORCH=ON -DSAMEBITS_CUDA=ON $(if $(CUDA_ARCHS),-DSAMEBITS_CUDA_ARCHS=$(CUDA_ARCHS))
	cmake --build --preset $(PRESET)

gpu-test: gpu-build  ## CUDA tests, on a machine with an NVIDIA GPU (CUDA_ARCHS=native builds for it alone)
	tools/gpu_test.sh $(BUILD) $(PYTHON)

gpu-evidence: gpu-build  ## evidence/<device>/*.json, on a machine with an NVIDIA GPU
	cmake --build --preset $(PRESET) --target cuda_bench
	tools/gpu_evidence.sh $(BUILD) $(PYTHON)

clean:  ## forget all builds
	rm -rf build dist
