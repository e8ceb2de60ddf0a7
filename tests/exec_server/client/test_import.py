"""What `import exec_server` costs, and what it brings."""

from __future__ import annotations

import subprocess
import sys

import exec_server

SERVER_PARTS = ("thespian", "actors", "transport", "websockets", "msgspec", "asyncio", "exec_server.server.server")


def test_the_import_loads_nothing_of_the_server() -> None:
    """Lost: tens of milliseconds at every start of every script that uses the client."""
    code = f"import sys, exec_server; print([name for name in {SERVER_PARTS!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"[]\n"


def test_using_the_client_loads_no_actors() -> None:
    code = "import sys, exec_server; exec_server.connect_websocket; print('thespian' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"False\n"


def test_every_public_name_is_there() -> None:
    assert {name: getattr(exec_server, name) for name in exec_server.__all__}.keys() <= set(dir(exec_server))
    assert not hasattr(exec_server, "no_such_name")
