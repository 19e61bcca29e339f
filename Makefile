# The two commands of the README are `make demo` and `make test`; both do all their set-up.
.PHONY: demo test lint bench docs build clean
.DEFAULT_GOAL := help

# `make demo ARGS="--fault zone-outage --mode approve"`; `make test ARGS="-k drain"`
ARGS ?=
PYTEST_WORKERS ?= auto

help:
	@echo "make demo    watch one incident from the fault to the proof of its cure (ARGS=... for options)"
	@echo "make test    run every test (ARGS=... for pytest)"
	@echo "make lint    ruff, mypy, the floors of the house"
	@echo "make bench   run every benchmark"
	@echo "make docs    write what is generated in docs/, dashboards/ and helm/"
	@echo "make build   build the distribution"

demo:
	@scripts/environment run
	@.venv/bin/healer demo $(ARGS)

test:
	@scripts/environment test
	@scripts/test-servers
	@.venv/bin/python -m pytest -n $(PYTEST_WORKERS) --dist worksteal $(ARGS)

lint:
	@scripts/environment test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench:
	@scripts/environment test
	@scripts/test-servers
	@for name in loop_latency intake footprint crash failover; do .venv/bin/python -m benchmarks.$$name $(ARGS) || exit 1; done

docs:
	@scripts/environment test
	@.venv/bin/python -m scripts.generate_docs
	@.venv/bin/python -m scripts.generate_chart

build:
	@scripts/environment test
	@rm -rf build dist
	@.venv/bin/python -m build --no-isolation

clean:
	rm -rf .venv .cache build dist
