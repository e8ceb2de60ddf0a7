"""Additions to the wire, by the names that `initialize` tells (docs/protocol.md, "How the wire may grow")."""

from __future__ import annotations

from protocol.methods import METHODS

MEMBERS = (
    "size",
    "timeouts",
    "onDisconnect",
    "mode",
    "exitStatus",
    "gaps",
    "signals",
    "gracefulTerminate",
    "msgpack",
    "writeOffset",
    "sessionTtl",
    "limits",
    "record",
    "terminalModes",
)
"""Additions that are no request of their own; those that are have their name on their params."""


def in_force(*, screen: bool, record: bool) -> list[str]:
    """All additions that are in force, where screens can be rendered, and terminals recorded."""
    absent = {name for name, has in (("screen", screen), ("record", record)) if not has}
    names = (*MEMBERS, *(kind.EXTENSION for kind in METHODS.values() if kind.EXTENSION is not None))
    return [name for name in dict.fromkeys(names) if name not in absent]
