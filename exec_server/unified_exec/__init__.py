"""Unified exec: a machine's commands as the two calls that a language model can make.

    async with Environment.create() as environment, UnifiedExec(environment) as commands:
        snapshot = await commands.exec_command("make test", yield_time_ms=1000)
        while snapshot.process_id is not None:
            snapshot = await commands.write_stdin(snapshot.process_id)

manager       UnifiedExec: the calls
  ├─ table    the commands by their ids
  └─ command  one of them: what it printed and nobody was shown yet, and how it ended
       └─ characters, cutting     whole characters; head and tail of too much; pure
limits, eviction, clock           windows, sizes, who has to go, time that can be stopped; pure
report        what callers get: snapshots, events, errors
"""

from exec_server.unified_exec.manager import UnifiedExec
from exec_server.unified_exec.report import (
    Begin,
    End,
    Event,
    OutputDelta,
    SandboxDenied,
    Snapshot,
    StdinClosed,
    TerminalInteraction,
    UnifiedExecError,
    UnknownCommand,
)

__all__ = [
    "Begin",
    "End",
    "Event",
    "OutputDelta",
    "SandboxDenied",
    "Snapshot",
    "StdinClosed",
    "TerminalInteraction",
    "UnifiedExec",
    "UnifiedExecError",
    "UnknownCommand",
]
