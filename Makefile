# Everyday commands. `make run` and `make test` are all that a newcomer needs; both set up what they need first.
PYTHON := .venv/bin/python

# Thousands of processes of the tests would each compile Grus again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run check test goldens lint imports types system-packages kubernetes frameworks trust simulate proof bench bench-data clean
.NOTPARALLEL:

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

setup: ## make .venv and install everything into it (at once when nothing changed)
	@tools/bootstrap

run: setup ## set up, then show Grus at work: the demo on virtual GPUs, with real processes
	@.venv/bin/grus demo

check: setup ## style, import rules, types and the core tests, in minutes: for every change
	@$(PYTHON) -m tests.suite --check

test: setup system-packages kubernetes frameworks ## set up, then run every check and every test: what continuous integration runs
	@$(PYTHON) -m tests.suite

system-packages:
	@tools/system-packages

# Builds the test cluster's programs if they are not in the cache; without them the tests name themselves as not run.
kubernetes:
	@tools/kubernetes/up --build-only || true

# Tests have no network of their own, so what they use of other frameworks is installed before.
frameworks:
	@$(PYTHON) -m tests.live.environments || true

lint:
	@echo '== style'
	@$(PYTHON) -m ruff check --quiet .
	@$(PYTHON) -m ruff format --check --quiet .

imports:
	@echo '== import rules'
	@.venv/bin/lint-imports --no-cache

types:
	@echo '== types'
	@$(PYTHON) -m mypy

goldens: setup ## write the golden files as the code is now; NAME=structure/openapi.json for one of them
	@$(PYTHON) -m tests.golden.write $(NAME)

trust: setup system-packages ## every proof of reliability and its table, ten minutes; SIZE=long adds long runs to those before, for MINUTES each
	@$(PYTHON) -m tests.trust.table $(if $(filter long,$(SIZE)),--long) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(WRITE),--write)

simulate: setup ## simulated histories of the whole control plane under faults: SEEDS=1000, FROM=0
	@$(PYTHON) -m tests.trust.simulate --seeds $(or $(SEEDS),200) --from $(or $(FROM),0)

proof: setup ## the long proofs in full size; writes their figures into docs/benchmarks.md
	@$(PYTHON) tools/record.py stops -- $(PYTHON) -m tests.chaos.stops $${GRUS_PROOF_STOPS:-300}
	@$(PYTHON) tools/record.py server_kills -- $(PYTHON) -m tests.chaos.server_kills $${GRUS_PROOF_KILLS:-300}
	@$(PYTHON) tools/record.py troubles -- $(PYTHON) -m tests.kubernetes.troubles 1 --minute

bench: setup ## the benchmarks; writes their figures into docs/benchmarks.md
	@$(PYTHON) tools/record.py submit -- $(PYTHON) -m benchmarks.submit
	@$(PYTHON) tools/record.py cycle -- $(PYTHON) -m benchmarks.cycle
	@$(PYTHON) tools/record.py pooling -- $(PYTHON) -m benchmarks.pooling
	@$(PYTHON) tools/record.py sharing -- $(PYTHON) -m benchmarks.sharing
	@$(PYTHON) tools/record.py epochs -- $(PYTHON) -m benchmarks.epochs
	@$(PYTHON) tools/record.py periods -- $(PYTHON) -m benchmarks.periods
	@$(PYTHON) tools/record.py sweep -- $(PYTHON) -m benchmarks.sweep
	@$(PYTHON) tools/record.py sweep_live -- $(PYTHON) -m benchmarks.sweep_live
	@if [ -n "$$GRUS_DATA" ]; then $(MAKE) bench-data; else echo 'not run without GRUS_DATA: pollux, policies, philly, eta, forecast, placement, memory'; fi
	@$(PYTHON) tools/record.py recorder -- $(PYTHON) -m benchmarks.recorder
	@$(PYTHON) tools/record.py pairs -- $(PYTHON) -m benchmarks.pairs
	@$(PYTHON) tools/record.py measuring -- $(PYTHON) -m benchmarks.measuring
	@$(PYTHON) tools/record.py profiling -- $(PYTHON) -m benchmarks.profiling
	@$(PYTHON) tools/record.py dashboard -- $(PYTHON) -m benchmarks.dashboard
	@$(PYTHON) tools/record.py stages -- $(PYTHON) -m benchmarks.stages
	@$(PYTHON) tools/record.py resize -- $(PYTHON) -m benchmarks.resize
	@$(PYTHON) tools/record.py slurm -- $(PYTHON) -m benchmarks.slurm
	@$(PYTHON) tools/record.py kubernetes -- $(PYTHON) -m benchmarks.kubernetes

bench-data: setup
	@$(PYTHON) tools/record.py pollux -- $(PYTHON) -m benchmarks.pollux
	@$(PYTHON) tools/record.py policies -- $(PYTHON) -m benchmarks.policies
	@$(PYTHON) tools/record.py philly -- $(PYTHON) -m benchmarks.philly
	@$(PYTHON) tools/record.py eta -- $(PYTHON) -m benchmarks.eta
	@$(PYTHON) tools/record.py forecast -- $(PYTHON) -m benchmarks.forecast
	@$(PYTHON) tools/record.py placement -- $(PYTHON) -m benchmarks.placement
	@$(PYTHON) tools/record.py memory -- $(PYTHON) -m benchmarks.memory

clean: ## remove everything that these commands made
	rm -rf .venv .stamps .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
