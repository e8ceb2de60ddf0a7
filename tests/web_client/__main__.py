"""`python -m tests.web_client`: type checks the JavaScript client and its tests, and runs these. Arguments: files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.web_client.tools import NotInstalled, modules, node

CLIENT = Path(__file__).parent.parent.parent / "web" / "client"
PAGE = Path(__file__).parent.parent / "web_page"
_TEST_TIMEOUT_MS = 60_000
_TIMEOUT_S = 600


def main(arguments: list[str]) -> int:
    """The exit status: 0 if all is well."""
    try:
        compiler = modules() / "typescript" / "bin" / "tsc"
        program = node()
    except NotInstalled as error:
        print(error, file=sys.stderr)
        return 1
    types = [program, compiler, "-p", "test", "--typeRoots", modules() / "@types"]
    if subprocess.run(types, cwd=CLIENT, timeout=_TIMEOUT_S).returncode:
        return 1
    environment = {
        **os.environ,
        "EXEC_SERVER": f"{sys.executable} -m exec_server",
        "NODE": str(program),
        "TSC": str(compiler),
    }
    files = arguments or [str(path) for path in sorted(CLIENT.glob("test/*.test.js")) + sorted(PAGE.glob("*.test.js"))]
    tests = [program, "--test", f"--test-timeout={_TEST_TIMEOUT_MS}", "--test-reporter=dot", *files]
    return subprocess.run(tests, cwd=CLIENT, env=environment, timeout=_TIMEOUT_S).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
