"""`python -m tests.exec_server.mcp.clients`: exit status 0 if all is well, 1 if not, 2 if nothing could be run."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.exec_server.mcp.clients import codex, conformance, figures, inspector
from tests.exec_server.mcp.clients.checks import Wrong
from tests.real_client.install import NotInstalled as NoCodex
from tests.support.npm import NotInstalled, modules, node

_HERE = Path(__file__).parent


def parts() -> dict[str, Callable[[Path], list[str]]]:
    """What is tried, by name; each gets a folder of its own, and returns what it has to tell."""

    def with_node(run: Callable[[Path, Path, Path], list[str]]) -> Callable[[Path], list[str]]:
        found = modules(_HERE, "mcp")
        return lambda work: run(node(found), found, work)

    return {
        "inspector": with_node(inspector.run),
        "conformance": with_node(conformance.run),
        "codex": lambda work: asyncio.run(codex.run(work)),
        "figures": lambda work: asyncio.run(figures.run()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.exec_server.mcp.clients", description=__doc__)
    parser.add_argument("part", nargs="*", help="inspector, conformance, codex, figures (default: all)")
    options = parser.parse_args()
    wrong = 0
    try:
        found = parts()
        for name in options.part or found:
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=f"mcp-{name}-") as work:
                try:
                    told = found[name](Path(work))
                    verdict = "PASS"
                except (Wrong, AssertionError, TimeoutError) as error:
                    told, verdict, wrong = [str(error) or repr(error)], "FAIL", 1
            print(f"{verdict} {name} ({time.monotonic() - began:.1f} s)", *told, sep="\n  ", flush=True)
    except (NotInstalled, NoCodex) as error:
        print(f"the clients cannot be run: {error}", file=sys.stderr)
        return 2
    return wrong


if __name__ == "__main__":
    sys.exit(main())
