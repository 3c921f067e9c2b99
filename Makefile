# Everything from a fresh clone with Python 3.11 and make: `make book`, `make test`.
PYTHON ?= python3.11
ifeq ($(shell command -v $(PYTHON)),)
PYTHON = python3
endif
BIN := .venv/bin
RUN := $(BIN)/python -m mononet
# Those that read recorded studies come last; nested_cv takes hours.
EXPERIMENTS := provenance prior_protocol head_collapse convex_floor depth_explosion seed_collapse two_moons \
	coverage faults cost selection_optimism size_table nested_cv
PYTEST := $(BIN)/python -m pytest -q -n $(shell nproc) --dist loadgroup

.PHONY: book test test-full studies verify cost clean

book: .venv/ready
	$(RUN) book

test: book
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(PYTEST) -m "not slow"

test-full: .venv/ready
	$(PYTEST) -m slow

studies: .venv/ready
	$(RUN) study all
	$(RUN) study all --secondary
	for experiment in $(EXPERIMENTS); do $(RUN) run $$experiment || exit 1; done

verify: .venv/ready
	$(RUN) verify

cost: .venv/ready
	$(BIN)/python -m benchmarks.cost

clean:
	rm -rf build .pytest_cache .hypothesis .ruff_cache

.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	touch $@
