"""exec-server: runs commands on a machine for somebody who is elsewhere.

    async with exec_server.connect_websocket("ws://127.0.0.1:8765") as client:
        done = await client.run(["uname", "-a"], check=True)

What a program uses is listed in `__all__`, and loaded when it is first used. docs/guide.md shows how.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from exec_server.client.client import ExecServerClient
    from exec_server.client.connect import connect_stdio, connect_websocket
    from exec_server.client.errors import ConnectFailed, OutputGap, TransportDisconnected, Unauthorized
    from exec_server.client.events import Closed, Exited, ExitStatus, Failed, Gap, Missed, Output
    from exec_server.client.in_process import connect_in_process
    from exec_server.client.local_server import spawn_local_server
    from exec_server.client.process import Process
    from exec_server.environment import Environment

_HOMES = {
    "Environment": "exec_server.environment",
    "ExecServerClient": "exec_server.client.client",
    "connect_in_process": "exec_server.client.in_process",
    "spawn_local_server": "exec_server.client.local_server",
    "Process": "exec_server.client.process",
    **dict.fromkeys(("connect_stdio", "connect_websocket"), "exec_server.client.connect"),
    **dict.fromkeys(
        ("ConnectFailed", "OutputGap", "TransportDisconnected", "Unauthorized"), "exec_server.client.errors"
    ),
    **dict.fromkeys(
        ("Closed", "ExitStatus", "Exited", "Failed", "Gap", "Missed", "Output"), "exec_server.client.events"
    ),
}

__all__ = [
    "Closed",
    "ConnectFailed",
    "Environment",
    "ExecServerClient",
    "ExitStatus",
    "Exited",
    "Failed",
    "Gap",
    "Missed",
    "Output",
    "OutputGap",
    "Process",
    "TransportDisconnected",
    "Unauthorized",
    "connect_in_process",
    "connect_stdio",
    "connect_websocket",
    "spawn_local_server",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
