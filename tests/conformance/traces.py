"""The recorded conversations of upstream's server, and what a replay makes of their messages.

In data/traces.jsonl a line is a trace. Texts that depend on the recorded machine are written as `@NAME@`; output is
shown as text where it is text; waits are shorter than they were, and where the recorded client slept until a command
was ready the command says `ready`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "traces.jsonl"
REQUESTS = DATA.parent / "requests.jsonl"
"""Those of HTTP requests, and of the machine's configuration: test_requests.py."""
PIPELINED = ("concurrency/1", "concurrency/4")
"""Traces whose client did not wait for answers."""

BINARY = bytes(range(256)) * 3907
BINARY_BASE64 = base64.b64encode(BINARY[:1_000_000]).decode()
PASTE = (bytes(range(32, 127)) * 1053)[:100_000]


@dataclass
class Trace:
    """What a client sent (exact text, or base64 under `binary`) and what it was told, in the order of arrival."""

    name: str
    send: list[str | dict[str, str]]
    recv: list[Any]
    closed: bool = False


@dataclass
class Places:
    """What the recorded client knew under other names: a folder, a home, a session id."""

    folder: Path
    session: str = "no session"

    def __post_init__(self) -> None:
        self._values = {
            "@DIR@": str(self.folder),
            "@HOME@": os.path.expanduser("~"),
            "@PYTHON@": sys.executable,
            "@LONG@": "x" * 5000,
            "@MD5@": hashlib.md5(PASTE).hexdigest(),
        }

    def fill(self, text: str) -> str:
        for name, value in self._values.items():
            text = text.replace(name, value)
        text = text.replace("@BYTES:1000000@", BINARY_BASE64)
        text = text.replace("@Z:1048577@", base64.b64encode(b"z" * ((1 << 20) + 1)).decode())
        text = text.replace("@ASCII:100000@", base64.b64encode(PASTE).decode())
        return text.replace("@SESSION@", self.session)


def load(data: Path = DATA) -> dict[str, Trace]:
    """All traces of a file by name."""
    return {row["name"]: Trace(**row) for row in map(json.loads, data.read_text().splitlines())}


@dataclass
class Step:
    """One message of the client, and the answer it got from upstream (None: none)."""

    number: int
    message: str | bytes
    request: dict[str, Any] | None
    """The message if it is a request with an id that can be answered under it."""
    answer: dict[str, Any] | None = None
    told: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The notifications of each process that upstream had sent when it answered."""

    @property
    def process_id(self) -> str | None:
        params = self.request.get("params") if self.request else None
        process_id = params.get("processId") if isinstance(params, dict) else None
        return process_id if isinstance(process_id, str) else None

    @property
    def method(self) -> str:
        return str(self.request["method"]) if self.request else ""


def steps_of(trace: Trace, places: Places) -> list[Step]:
    steps = [_step(number, raw, places) for number, raw in enumerate(trace.send, 1)]
    answers = [(position, message) for position, message in enumerate(trace.recv) if "id" in message]
    answerable = [step for step in steps if not _is_notification(step.message)]
    if trace.name in PIPELINED:
        by_id = {message["id"]: (position, message) for position, message in answers}
        answers = [by_id[step.request["id"]] for step in answerable if step.request]
    assert trace.closed or len(answers) == len(answerable), trace.name
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    position = 0
    for step, (answered_at, answer) in zip(answerable, answers, strict=False):
        for message in trace.recv[position:answered_at]:
            if "processId" in message.get("params", {}):
                told[message["params"]["processId"]].append(json.loads(places.fill(json.dumps(message))))
        position = max(position, answered_at)
        step.answer = json.loads(places.fill(json.dumps(answer)))
        step.told = {process_id: list(messages) for process_id, messages in told.items()}
    return steps


def _step(number: int, raw: str | dict[str, str], places: Places) -> Step:
    if isinstance(raw, dict):
        return Step(number, base64.b64decode(raw["binary"]), None)
    text = places.fill(raw)
    try:
        message = json.loads(text)
    except ValueError:
        message = None
    is_request = isinstance(message, dict) and isinstance(message.get("method"), str) and "id" in message
    return Step(number, text, message if is_request else None)


def _is_notification(message: str | bytes) -> bool:
    try:
        parsed = json.loads(message)
    except ValueError:
        return False
    return isinstance(parsed, dict) and isinstance(parsed.get("method"), str) and "id" not in parsed
