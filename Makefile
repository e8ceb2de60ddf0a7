# `make demo` and `make test` need Python >= 3.11 and the package index, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE ?= origin/main
PYTEST_ARGS ?=
REAL_CLIENT_ARGS ?=

# The tests start hundreds of programs and import in four processes: each would compile all of its modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-real-client test-web test-browser web-vendor test-mcp mcp-figures test-slow soak fuzz flaky lint types imports check bench clean

$(VENV)/.program: pyproject.toml # what the program needs, and no more
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "exec-server needs Python >= 3.11, this is %d.%d; set PYTHON=" % sys.version_info[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.installed: $(VENV)/.program
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	touch $@

demo: $(VENV)/.program
	$(BIN)/python -m examples.demo

test: $(VENV)/.installed # four at a time, whatever the cores: they wait more than they compute
	$(BIN)/python -m pytest -m "not slow and not soak" -n 4 $(PYTEST_ARGS)

# The Codex CLI as a client of our server; needs npm, the first time, and 420 MB in ~/.cache/exec-server-tests.
# Then once more with the server broken in one way after the other, each of which a scenario must notice.
test-real-client: $(VENV)/.installed
	$(BIN)/python -m tests.real_client --all $(REAL_CLIENT_ARGS)
	$(BIN)/python -m tests.real_client.plugins
	$(BIN)/python -m tests.real_client --all --faults $(REAL_CLIENT_ARGS)

# The JavaScript client: its types, and its tests with Node 22; needs npm, the first time, and 210 MB in
# ~/.cache/exec-server-tests.
test-web: $(VENV)/.installed
	$(BIN)/python -m tests.web_vendor --check
	$(BIN)/python -m tests.web_client

# The MCP server with the clients of others: the MCP Inspector, the protocol's conformance tests and the Codex CLI; needs
# npm, the first time, and 760 MB in ~/.cache/exec-server-tests.
test-mcp: $(VENV)/.installed
	$(BIN)/python -m tests.exec_server.mcp.clients inspector conformance codex

# What a call over MCP costs, against its bounds; on a quiet machine.
mcp-figures: $(VENV)/.installed
	$(BIN)/python -m tests.exec_server.mcp.clients figures

# The page in a real Chromium; needs Debian's packages chromium, nginx-light and vim, and npm.
test-browser: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	EXEC_SERVER_BROWSER_TESTS=yes $(BIN)/python -m pytest tests/browser --timeout 120 -n 2 $(PYTEST_ARGS)

# What the page takes unchanged from npm, in the versions of tests/web_vendor/packages.py.
web-vendor: $(VENV)/.installed
	$(BIN)/python -m tests.web_vendor --renew

test-slow: $(VENV)/.installed # with the properties of the first tier, which tries a share of their examples
	EXEC_SERVER_EXAMPLES=all $(BIN)/python -m pytest -m "slow or hypothesis" $(PYTEST_ARGS)

# Mixed load for so many SECONDS; the figures are shown at the end.
SECONDS ?= 600
soak: $(VENV)/.installed
	EXEC_SERVER_SOAK_SECONDS=$(SECONDS) $(BIN)/python -m pytest -m soak --timeout 0 -s $(PYTEST_ARGS)

# Coverage-guided fuzzing of the pure parsers, so many seconds each; needs atheris.
FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	for parser in frames lines maps head json msgpack; do \
		$(BIN)/python -m tests.security.fuzz_parsers $$parser -max_total_time=$(FUZZ_SECONDS) || exit 1; done

# The tests changed since BASE, 20 times, while both cores are busy.
flaky: $(VENV)/.installed
	BASE=$(BASE) $(BIN)/python -m tests.flaky

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

imports: $(VENV)/.installed
	$(BIN)/lint-imports

check: lint types imports

# SERVERS names what to measure, e.g. --server ours='...{port}' --server other='...{port}'.
SERVERS ?= --server ours='$(BIN)/python -m exec_server --listen ws://127.0.0.1:{port}'
bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[bench]'
	$(BIN)/python benchmarks/wire_bench.py $(SERVERS) $(BENCH_ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
