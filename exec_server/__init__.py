"""exec-server: runs commands on a machine for somebody who is elsewhere.

    async with exec_server.connect_websocket("ws://127.0.0.1:8765") as client:
        done = await client.run(["uname", "-a"], check=True)

What a program uses is listed in `__all__`, and loaded when it is first used. docs/guide.md shows how.
"""

from __future__ import annotations

from importlib import import_module

from exec_server.version import __version__ as __version__

TYPE_CHECKING = False  # a type checker takes it for true; `typing` would cost a third of this import

if TYPE_CHECKING:
    from exec_server.client import sync as sync
    from exec_server.client.client import ExecServerClient
    from exec_server.client.connect import connect_stdio, connect_websocket
    from exec_server.client.environment import Environment
    from exec_server.client.environments_file import EnvironmentsFileError
    from exec_server.client.errors import ConnectFailed, OutputGap, TransportDisconnected, Unauthorized
    from exec_server.client.events import (
        Closed,
        Disconnected,
        Exited,
        ExitStatus,
        Failed,
        Gap,
        Missed,
        Output,
        Reconnected,
    )
    from exec_server.client.images import ImageError
    from exec_server.client.in_process import connect_in_process
    from exec_server.client.local_server import spawn_local_server
    from exec_server.client.other_session import OtherSession
    from exec_server.client.process import Process
    from exec_server.client.start import RunOptions, StartOptions
    from exec_server.server.access import AccessError
    from exec_server.server.config import Config
    from exec_server.server.embed import serve
    from exec_server.server.server import Server
    from exec_server.unified_exec.manager import UnifiedExec
    from protocol.errors import ExecServerError, SpawnError
    from transport.listen import ListenUrlError

_HOMES = {
    "exec_server.client.client": ("ExecServerClient",),
    "exec_server.client.connect": ("connect_stdio", "connect_websocket"),
    "exec_server.client.environments_file": ("EnvironmentsFileError",),
    "exec_server.client.errors": ("ConnectFailed", "OutputGap", "TransportDisconnected", "Unauthorized"),
    "exec_server.client.events": (
        "Closed",
        "Disconnected",
        "ExitStatus",
        "Exited",
        "Failed",
        "Gap",
        "Missed",
        "Output",
        "Reconnected",
    ),
    "exec_server.client.images": ("ImageError",),
    "exec_server.client.in_process": ("connect_in_process",),
    "exec_server.client.local_server": ("spawn_local_server",),
    "exec_server.client.other_session": ("OtherSession",),
    "exec_server.client.process": ("Process",),
    "exec_server.client.start": ("RunOptions", "StartOptions"),
    "exec_server.client.environment": ("Environment",),
    "exec_server.server.access": ("AccessError",),
    "exec_server.server.config": ("Config",),
    "exec_server.server.embed": ("serve",),
    "exec_server.server.server": ("Server",),
    "exec_server.unified_exec.manager": ("UnifiedExec",),
    "transport.listen": ("ListenUrlError",),
    "protocol.errors": ("ExecServerError", "SpawnError"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AccessError",
    "Closed",
    "Config",
    "ConnectFailed",
    "Disconnected",
    "Environment",
    "EnvironmentsFileError",
    "ExecServerClient",
    "ExecServerError",
    "ExitStatus",
    "Exited",
    "Failed",
    "Gap",
    "ImageError",
    "ListenUrlError",
    "Missed",
    "OtherSession",
    "Output",
    "OutputGap",
    "Process",
    "Reconnected",
    "RunOptions",
    "Server",
    "SpawnError",
    "StartOptions",
    "TransportDisconnected",
    "Unauthorized",
    "UnifiedExec",
    "connect_in_process",
    "connect_stdio",
    "connect_websocket",
    "serve",
    "spawn_local_server",
    "sync",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "sync":
            return import_module("exec_server.client.sync")
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
