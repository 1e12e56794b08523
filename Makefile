# Everything that a person or CI does with a checkout. `make help` lists it.
#
# The environment is a venv of this checkout with the exact versions of requirements.lock. It is made when it is missing
# and made anew when the lock changes: the stamp carries the lock's checksum, because a fresh clone has fresh file times.

PYTHON ?= python3
VENV ?= .venv
# A second environment: a CUDA build generates code for GPUs on machines without one, and is another version besides.
CUDA_TORCH ?= torch==2.14.1
CUDA_VENV ?= .venv-cuda
POOL ?= local
RANKS ?= 4
STEPS ?= 20
ARGS ?=
# Each file of tests stays in one process: what it starts is shared by its tests. Files go out in the order of
# tests/conftest.py; by itself pytest-xdist would keep those with the fewest tests for the end, and they are the longest.
# Four even on two cores, because tests of faults wait more than they compute: with three, a third of the time was nobody's.
PARALLEL ?= -n 4 --dist loadfile --no-loadscope-reorder

# Stubs come from the oldest generator that we support: generated code refuses a gRPC or protobuf older than itself.
GRPC_TOOLS := grpcio-tools==1.62.3
PROTOS_VENV ?= build/protos-venv
PROTOS := $(wildcard protos/inductord/v1/*.proto)

BIN := $(VENV)/bin
checksum = $(firstword $(shell cat $(1) | cksum))
LOCKED := $(VENV)/.locked-$(call checksum,requirements.lock)
INSTALLED := .installed-$(call checksum,pyproject.toml src/inductord/__init__.py)-$(firstword $(shell echo '$(CURDIR)' | cksum))
CUDA_LOCKED := $(CUDA_VENV)/.locked-$(call checksum,requirements.lock)-$(CUDA_TORCH)

.DEFAULT_GOAL := help
.PHONY: help demo test test-cuda lint format protos wheel lock venv k8s-tools clean
.SUFFIXES:

help: ## Show this list
	@echo 'usage: make TARGET [NAME=VALUE ...]'
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  PYTHON=$(PYTHON)  interpreter for new venvs, 3.11 or later'
	@echo '  VENV=$(VENV) CUDA_VENV=$(CUDA_VENV)  where the environments are kept'
	@echo '  PARALLEL=$(PARALLEL)  how tests are spread; empty: one after the other'
	@echo '  ARGS=  further arguments of pytest, such as ARGS="-m unit" or ARGS="-k hit -x"'
	@echo '  POOL=$(POOL) RANKS=$(RANKS) STEPS=$(STEPS)  of the demo; POOL=ray compiles on Ray'

demo: venv ## Train on plain Inductor, then through inductord, and compare
	@$(BIN)/python demo/compare.py --pool $(POOL) --ranks $(RANKS) --steps $(STEPS)

test: venv ## Run all tests
	@$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-cuda: $(CUDA_VENV)/$(INSTALLED) ## Run what a CUDA build of PyTorch shows without a GPU
	@$(CUDA_VENV)/bin/python -m pytest $(PARALLEL) $(ARGS) tests/codegen tests/features/test_features.py \
		tests/integration/test_rank_keys.py tests/integration/test_aot_cache.py

lint: venv ## Check style, types and protos
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/buf lint protos

format: venv ## Format the code and sort imports
	$(BIN)/ruff check --fix-only --select I .
	$(BIN)/ruff format .

protos: $(PROTOS_VENV)/.$(GRPC_TOOLS) ## Generate the gRPC stubs anew from protos/
	rm -f src/inductord/v1/*_pb2*.py*
	$(PROTOS_VENV)/bin/python -m grpc_tools.protoc -Iprotos --python_out=src --pyi_out=src --grpc_python_out=src $(PROTOS)

$(PROTOS_VENV)/.$(GRPC_TOOLS):
	$(PYTHON) -m venv --clear $(PROTOS_VENV)
	$(PROTOS_VENV)/bin/pip install --quiet $(GRPC_TOOLS) 'setuptools<80'  # this generator still imports pkg_resources
	@touch $@

wheel: venv ## Build sdist and wheel into dist/
	rm -rf build/lib build/bdist.* dist  # setuptools would pack what an earlier build left
	$(BIN)/python -m build --no-isolation

lock: ## Choose the newest versions that pyproject.toml allows, and write requirements.lock
	$(PYTHON) -m venv --clear build/lock-venv
	build/lock-venv/bin/pip install --quiet "$$(grep '^torch==' requirements.lock)" 'setuptools>=77'
	build/lock-venv/bin/pip install --quiet --no-build-isolation -e '.[dev]'
	sed '/^#/!d' requirements.lock > build/requirements.lock
	build/lock-venv/bin/pip freeze --all --exclude-editable --exclude pip | sed 's/+cpu$$//' >> build/requirements.lock
	mv build/requirements.lock requirements.lock
	rm -rf build/lock-venv

venv: $(VENV)/$(INSTALLED) ## Make the environment only

# torch first: when it is there, no other package can choose a different build of it.
$(LOCKED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "inductord needs Python 3.11 or later; name one: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet "$$(grep '^torch==' requirements.lock)"
	$(BIN)/pip install --quiet -r requirements.lock
	@rm -f $(VENV)/.locked-* && touch $@

$(CUDA_LOCKED):
	$(PYTHON) -m venv --clear $(CUDA_VENV)
	$(CUDA_VENV)/bin/pip install --quiet '$(CUDA_TORCH)'
	grep -v '^torch==' requirements.lock > $(CUDA_VENV)/requirements.lock
	$(CUDA_VENV)/bin/pip install --quiet -r $(CUDA_VENV)/requirements.lock
	@touch $@

$(VENV)/$(INSTALLED): $(LOCKED)
$(CUDA_VENV)/$(INSTALLED): $(CUDA_LOCKED)
%/$(INSTALLED):
	$*/bin/pip install --quiet --no-deps --no-build-isolation -e .
	@rm -f $*/.installed-* && touch $@

k8s-tools: $(VENV)/k8s-tools/.made-$(call checksum,k8s/tools.txt) ## Make the environment of the checkers that tests of k8s/ use

$(VENV)/k8s-tools/.made-$(call checksum,k8s/tools.txt): $(LOCKED)
	$(PYTHON) -m venv --clear $(VENV)/k8s-tools
	$(VENV)/k8s-tools/bin/pip install --quiet -r k8s/tools.txt
	@touch $@

clean: ## Remove the environment, builds and caches
	rm -rf .venv .venv-cuda build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
