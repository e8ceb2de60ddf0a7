"""Ways in which a server can be broken, each with the scenario that must notice it: what proves the scenarios.

A fault stands between proxy and server, so that a right server looks broken to the client and to the recording.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.real_client.wire import Direction, Message

Change = Callable[[Direction, Message], list[Message]]
"""What arrives in place of a message; the same object where it is left as it is."""


@dataclass(frozen=True)
class Fault:
    name: str
    scenario: str
    change: Change


def _events(method: str, change: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> Change:
    """Change the params of a notification; each dict that is returned becomes one."""

    def altered(direction: Direction, message: Message) -> list[Message]:
        if direction == "to server" or not message.get("method", "").startswith(method):
            return [message]
        return [message | {"params": params} for params in change(message["params"])]

    return altered


def _requests(method: str, change: Callable[[Message], Message]) -> Change:
    """Change a request of the client before the server has it."""

    def altered(direction: Direction, message: Message) -> list[Message]:
        if direction == "to client" or message.get("method") != method:
            return [message]
        return [change(message)]

    return altered


def _params(method: str, **params: Any) -> Change:
    """Change members of a request's params."""
    return _requests(method, lambda message: message | {"params": message["params"] | params})


def _missing(method: str) -> Change:
    """The server does not know a method."""
    return _requests(method, lambda message: message | {"method": "no/such"})


def _results(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    """Change results; a change leaves those of other methods as they are."""

    def altered(direction: Direction, message: Message) -> list[Message]:
        if direction == "to server" or not isinstance(message.get("result"), dict):
            return [message]
        return [message | {"result": change(message["result"])}]

    return altered


def _wrong_code(direction: Direction, message: Message) -> list[Message]:
    if direction == "to server" or (message.get("error") or {}).get("code") != -32004:
        return [message]
    return [message | {"error": message["error"] | {"code": -32603}}]


def _new_write_id(message: Message) -> Message:
    return message | {"params": message["params"] | {"writeId": f"new-{next(_write_ids)}"}}


_write_ids = itertools.count()

FAULTS = (
    Fault("no process/exited", "short", _events("process/exited", lambda _: [])),
    Fault("no process/closed", "short", _events("process/closed", lambda _: [])),
    Fault("seqs from 0", "short", _events("process/", lambda p: [p | {"seq": p["seq"] - 1}])),
    Fault("every event twice", "short", _events("process/", lambda p: [p, p])),
    Fault("output cut short", "large", _events("process/output", lambda p: [p | {"chunk": p["chunk"][:4]}])),
    Fault("always exit code 0", "interactive", _events("process/exited", lambda p: [p | {"exitCode": 0}])),
    Fault("no terminals", "interactive", _params("process/start", tty=False, pipeStdin=True)),
    Fault("its own folder", "short", _params("process/start", cwd="file:///")),
    Fault("no signals", "ctrl_c", _missing("process/signal")),
    Fault("no terminate", "left_running", _missing("process/terminate")),
    Fault("no resume", "reconnect", _params("initialize", resumeSessionId=None)),
    Fault("repeated writes written", "write_retry", _requests("process/write", _new_write_id)),
    Fault("wrong code for not found", "apply_patch", _wrong_code),
    Fault("no fs/walk", "startup", _missing("fs/walk")),
    Fault("no size of files", "view_image", _results(lambda r: {k: r[k] for k in r if k != "size"})),
    Fault("messages in one frame", "large_file", _results(dict)),
    Fault("no http/request", "mcp_http", _missing("http/request")),
    Fault("sandbox of processes ignored", "sandbox_read_only", _params("process/start", sandbox=None)),
    Fault("sandbox of files ignored", "sandbox_workspace", _params("fs/writeFile", sandbox=None)),
)
