# Every target that needs the environment runs setup first; that costs some milliseconds once it is done.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .venv/bin
# Of the whole suite: twice as many as it expects processors, because its tests wait half of their time.
WORKERS := 4
# Each process of the suite reads every test: a fifth of its time, unless what the first compiles is kept for the others.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

.PHONY: help setup run test soak check format reference peer srt mcptools mcppeers ecosystem sandlock bench native bwrap bash lock release clean

help: ## List the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## Make .venv with the locked dependencies and the compiled programs
	@scripts/setup.sh

run: setup ## Start the server
	@exec $(BIN)/paddock serve $(ARGS)

test: setup ## Run the whole test suite and hold its coverage against the floor (ARGS="-k name" runs a part)
	@$(PYTEST) --dist worksteal $(if $(ARGS),-n 2 $(ARGS),-n $(WORKERS) --cov --cov-report=)

soak: setup ## Run the tests that take minutes (ARGS="-k name" narrows it)
	@$(PYTEST) -n 2 -m soak $(ARGS)

check: setup ## Lint, formatting, spelling, types, layers and references
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/codespell --dictionary=- --dictionary=scripts/words.txt
	@$(BIN)/python -m scripts.wrap_prose --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m scripts.reference --check

format: setup ## Rewrite the sources in the project's format
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format
	@$(BIN)/python -m scripts.wrap_prose

reference: setup ## Write docs/reference/ from the code
	@$(BIN)/python -m scripts.reference

peer: ## Install Codex and its shell server into .peer, for interop tests and benchmarks
	@scripts/peer.sh

srt: ## Install another sandbox's proxy into .srt, for benchmarks
	@scripts/srt.sh

mcptools: ## Install the MCP inspector and conformance runner into .mcp-tools, for interop tests
	@scripts/mcp_tools.sh

mcppeers: ## Install other MCP servers with a shell into .mcp-peers, for benchmarks
	@scripts/mcp_peers.sh

ecosystem: setup ## Run the agent frameworks' own suites against the adapters, in .ecosystem (ARGS="deepagents" runs one)
	@scripts/ecosystem.sh
	@.ecosystem/bin/python -m tests.ecosystem $(ARGS)

sandlock: ## Install sandlock into .sandlock, for benchmarks
	@scripts/sandlock.sh

bench: setup peer srt mcppeers sandlock ## Run the benchmarks
	@$(BIN)/python -m bench --svg docs/benchmark.svg $(ARGS)

native: setup ## Recompile native/ if it has changed
	@$(BIN)/python hatch_build.py

bwrap: ## Build bubblewrap from the distribution's source, to be bundled
	@scripts/bwrap.sh

bash: ## Build the patched Bash of the wrapper back-end from the distribution's source
	@scripts/bash.sh

lock: setup ## Renew requirements.lock from pyproject.toml
	@scripts/lock.sh $(ARGS)

release: setup ## Make and try what a release has for this architecture: wheel, sdist, SBOM, checksums
	@scripts/release.sh

clean: ## Remove everything that the other targets made
	@rm -rf .venv .peer .mcp-tools .mcp-peers .sandlock .srt .ecosystem build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@rm -rf src/paddock/native src/paddock/*/*.abi3.so
	@find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
