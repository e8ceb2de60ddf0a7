"""Events of a turn: what UnifiedExec tells of commands, as front ends of agents show it. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from exec_server.unified_exec import Begin, End, Event, OutputDelta, TerminalInteraction

MAX_DELTAS = 10_000
"""Of one call: what comes after them is in the transcript alone."""
SOURCE = "unified_exec_startup"


class TurnEvents:
    """Translates the events of one turn's commands. `cwd` is what a command without a folder of its own runs in, and
    `shell` what runs one that is a line.
    """

    def __init__(self, turn_id: str, *, cwd: str = "", shell: str = "sh") -> None:
        self._turn_id = turn_id
        self._cwd = cwd
        self._shell = shell
        self._begun: dict[str, dict[str, Any]] = {}
        self._deltas: dict[str, int] = {}

    def feed(self, event: Event) -> list[dict[str, Any]]:
        """What there is to show of an event of UnifiedExec: for each command its begin, deltas, and one end."""
        match event:
            case Begin():
                return [self._begin(event)]
            case OutputDelta():
                return self._delta(event)
            case TerminalInteraction(call_id, process_id, chars):
                shown = {"call_id": call_id, "process_id": str(process_id), "stdin": chars}
                return [{"type": "terminal_interaction", **shown}]
            case End():
                return [self._end(event)]

    def declined(
        self, call_id: str, command: str | Sequence[str], reason: str, *, workdir: str | None = None
    ) -> list[dict[str, Any]]:
        """Begin and end of a command that was refused, and so never started."""
        members = self._members(call_id, command, workdir)
        end = _ended("", reason, -1, 0.0, failed=True)
        return [
            {"type": "exec_command_begin", **members},
            {"type": "exec_command_end", **members, **end, "status": "declined"},
        ]

    def _begin(self, event: Begin) -> dict[str, Any]:
        members = self._members(event.call_id, event.command, event.workdir)
        members["process_id"] = str(event.process_id)
        self._begun[event.call_id] = members
        self._deltas[event.call_id] = 0
        return {"type": "exec_command_begin", **members}

    def _members(self, call_id: str, command: str | Sequence[str], workdir: str | None) -> dict[str, Any]:
        return {
            "call_id": call_id,
            "turn_id": self._turn_id,
            "command": [self._shell, "-c", command] if isinstance(command, str) else list(command),
            "cwd": workdir or self._cwd,
            "parsed_cmd": [],
            "source": SOURCE,
        }

    def _delta(self, event: OutputDelta) -> list[dict[str, Any]]:
        told = self._deltas.get(event.call_id, 0)
        if told >= MAX_DELTAS:
            return []
        self._deltas[event.call_id] = told + 1
        chunk = base64.b64encode(event.data).decode()
        return [{"type": "exec_command_output_delta", "call_id": event.call_id, "stream": event.stream, "chunk": chunk}]

    def _end(self, event: End) -> dict[str, Any]:
        members = self._begun.pop(event.call_id, {"call_id": event.call_id, "turn_id": self._turn_id})
        self._deltas.pop(event.call_id, None)
        if event.failure is not None:
            end = _ended(event.transcript, event.failure, -1, event.duration_s, failed=True)
        else:
            code = -1 if event.exit_code is None else event.exit_code
            end = _ended(event.transcript, "", code, event.duration_s, failed=code != 0)
        return {"type": "exec_command_end", **members, **end}


def _ended(transcript: str, message: str, exit_code: int, seconds: float, *, failed: bool) -> dict[str, Any]:
    whole = "\n".join(filter(None, (transcript, message)))
    nanos = round(seconds * 1e9)
    return {
        "stdout": transcript,
        "stderr": message,
        "aggregated_output": whole,
        "exit_code": exit_code,
        "duration": {"secs": nanos // 10**9, "nanos": nanos % 10**9},
        "formatted_output": whole,
        "status": "failed" if failed else "completed",
    }
