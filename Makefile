# `make demo` and `make test` are all a newcomer needs; both set up what they need first (scripts/setup.py).
# Only Python 3.11+, make and git must be there. `make PYTHON=/path/to/python …` chooses another Python.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
PY := .venv/bin/python
# For tools that start Node: setup may have put one into .venv.
WITH_NODE := PATH="$(CURDIR)/.venv/bin:$$PATH"

# Test processes, for 2 cores: tests wait half of their time. The browser tests keep to two of them (tests/conftest.py).
JOBS ?= 6
# A test with other processes in it that fails is run once more, to tell a race from what is broken. More than two
# of them fail the run (tests/reruns.py).
PYTEST := $(PY) -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder --reruns 1 --max-suite-reruns 10 --rerun-show-tracebacks

.PHONY: help setup python assets browser kernels llama model-vendors gateway-sdks redis mcp-servers shared-servers demo lab test sweeps attacks mutations chair test-matrix check bench docs requirements screenshots wheel release clean docs-clean

help:
	@echo "make demo          the agent on a small data set: no key, no network; leaves a notebook and its HTML"
	@echo "make lab           JupyterLab with the extension, on notebooks/"
	@echo "make test          tests of every promise"
	@echo "make check         ruff, pyright, import-linter, tsc and eslint"
	@echo "make sweeps        interrupts, kills and races at their full size; make test runs a hundredth of each"
	@echo "make attacks       every attempt to get past a protection, with verdicts; make test runs a hundredth of the new ones"
	@echo "make mutations     changes of the code, chosen and drawn: at least 95 % of each are noticed by a test"
	@echo "make chair         eleven jobs by an expert who knows only what the model is sent: requests, tokens, what was missing"
	@echo "make test-matrix   what make test proves by one case, by all; more versions of ipykernel and Python, Notebook 7, the oldest JupyterLab, large libraries, real MCP clients, MCP servers with a browser, JupyterHub"
	@echo "make bench         loading, streaming, decoding, looking at variables, stale cells, files and shell decisions, MCP calls, a turn's path, the bridge, pictures of charts, copies of the kernel, keeping variables for undo, questions while exploring, the gateway, as tables"
	@echo "make docs          this folder's pages as a site in site/, the quickstart executed"
	@echo "make requirements  which promises have a test"
	@echo "make screenshots   retake the pictures of README; ten states of the interface on a sheet, in artifacts/states"
	@echo "make wheel         sdist and wheel into dist/"
	@echo "make release       the same for a clean tree of one dated version; prints the next steps, uploads nothing"
	@echo "make setup         what the others do first, alone"
	@echo "make clean         remove all that was built; docs-clean removes made pages only"

setup: python assets browser

python assets browser:
	@if [ -z "$(PYTHON)" ]; then echo "No Python 3.11 or newer found. Install one, or: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; fi
	@$(PYTHON) scripts/setup.py $@
assets browser: python

# Older ipykernels, each in a folder of its own under .matrix/.
kernels: python
	@$(PY) tests/kernel/matrix.py

# A real model server for the tests: llama.cpp, for x86-64 and 64-bit ARM Linux.
llama: python
	@$(PY) tests/llm/llama_server.py

# The types with which vendors of models check requests, for the tests.
model-vendors: python
	@$(PY) tests/llm/model_vendors.py

# SDKs of vendors, for the tests of the gateway.
gateway-sdks: python
	@$(PY) tests/gateway/sdks.py

# A real Redis for the gateway's tests, from Debian.
redis: python
	@$(PY) tests/gateway/redis_server.py

# MCP servers that others wrote, for the tests.
mcp-servers: python
	@$(WITH_NODE) $(PY) tests/mcp/real_servers.py

# Servers that share a notebook between pages, each in an environment of its own under .matrix/.
shared-servers: python assets
	@$(PY) tests/browser/shared_servers.py

demo: python
	@$(PY) scripts/demo.py

lab: python assets
	$(PY) -m jupyter lab notebooks

# Compiled once, also where PYTHONDONTWRITEBYTECODE is set: else each of the programs that tests start compiles it all.
test: setup kernels llama model-vendors gateway-sdks redis mcp-servers
	@$(PY) -m compileall -q vibe_jupyter tests
	$(WITH_NODE) $(PYTEST)

# Seeds, counts and races at their full size; `make test` runs a hundredth. One of them: `make sweeps SWEEPS="name --seed 7"`.
sweeps: setup
	$(WITH_NODE) PYTHONPATH=. $(PY) -m tests.sweeps $(SWEEPS)

# Exit code 1 if an attempt got through or has no verdict. One family: `make attacks ATTACKS=paths`; all names: `ATTACKS=--list`.
attacks: setup
	$(WITH_NODE) PYTHONPATH=. $(PY) -m tests.attacks $(ATTACKS)

# Verdicts are kept in artifacts/ as long as code and tests stay. Some of them: `make mutations MUTATIONS="--only agent/run"`.
mutations: setup kernels
	$(WITH_NODE) PYTHONPATH=. $(PY) -m tests.mutations $(MUTATIONS)

# With a real model: `make chair MODEL=name@http://127.0.0.1:8080/v1` (its key: MODEL_KEY=...). One job, with all that was sent: `make chair CHAIR="--job c --show"`.
chair: setup
	PYTHONPATH=. MODEL="$(MODEL)" $(PY) -m tests.chair $(CHAIR)

test-matrix: setup shared-servers
	$(PY) tests/kernel/matrix.py --all --pythons --lab --libraries
	$(WITH_NODE) PYTHONPATH=. $(PY) tests/mcp_server/real_clients.py
	$(WITH_NODE) $(PY) tests/mcp/real_servers.py --all
	$(WITH_NODE) PYTHONPATH=. $(PY) tests/gateway/hub.py
	PYTHONPATH=. $(PY) tests/app/vibe_packages.py
	$(WITH_NODE) $(PYTEST) -m matrix

check: python assets
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(WITH_NODE) $(PY) -m pyright
	.venv/bin/lint-imports
	$(PY) scripts/prose.py
	$(WITH_NODE) npm run --silent check --prefix labextension

bench: python assets browser
	@$(PY) -m compileall -q vibe_jupyter benchmarks
	@failed=0; for table in load interrupt streaming decode loop progress frames objects staleness files decisions mcp_calls mcp_start turn_path resume bridge chart_pictures copies undo questions gateway; do \
		set -- $$table; name=$$1; shift; PYTHONPATH=. $(PY) benchmarks/$$name.py "$$@" || failed=1; done; exit $$failed

# A site that loads nothing from elsewhere; the quickstart runs with the tour model.
docs: python
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# The pictures of README, then ten states of the interface on a sheet; beside drawings: `make screenshots DRAWINGS=folder`.
screenshots: setup
	PYTHONPATH=. $(PY) scripts/screenshots.py
	PYTHONPATH=. $(PY) scripts/contact_sheet.py $(DRAWINGS)

requirements: python
	@$(PY) tests/requirement_report.py

wheel: python assets
	$(WITH_NODE) $(PY) -m build --no-isolation --outdir dist

release: python assets
	@$(WITH_NODE) $(PY) scripts/release.py

docs-clean:
	rm -rf site artifacts

clean: docs-clean
	rm -rf .venv .matrix build dist vibe_jupyter/ui/static vibe_jupyter/labextension labextension/node_modules labextension/lib
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
