"""Recorded messages, and what every exec-server must keep on a connection that nobody cut, whatever the scenario."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Message = dict[str, Any]
Direction = Literal["to server", "to client"]
LARGEST_FRAME = 16 << 20
LARGEST_MESSAGE = 64 << 20
"""Limits of the client's WebSocket library, in bytes. Beyond them it drops the connection."""
SETTLED_S = 1.0
"""A request that came so shortly before the end may be unanswered."""


@dataclass
class Frame:
    """One message as it came; `fragments` are the sizes of its frames in bytes, `altered` is what was sent instead."""

    direction: Direction
    seconds: float
    connection: int
    message: Message
    fragments: list[int]
    altered: list[Message] | None = None


def problems(frames: list[Frame]) -> list[str]:
    """What is wrong with one recorded connection; empty if nothing is."""
    received = [f for f in frames if f.direction == "to client"]
    return [*_answers(frames), *_events(received), *_sizes(received)]


def _answers(frames: list[Frame]) -> Iterator[str]:
    """Each request is answered exactly once, with a result or an error."""
    waiting: dict[Any, tuple[str, float]] = {}
    for frame in frames:
        message = frame.message
        if frame.direction == "to server" and "id" in message:
            waiting[message["id"]] = (message["method"], frame.seconds)
        elif frame.direction == "to client" and "method" not in message:
            if message.get("id") not in waiting:
                yield f"an answer to no open request: {str(message)[:120]}"
                continue
            yield from _shape(waiting.pop(message["id"])[0], message)
    end = frames[-1].seconds if frames else 0.0
    yield from (f"{method} was never answered" for method, at in waiting.values() if end - at > SETTLED_S)


def _shape(method: str, answer: Message) -> Iterator[str]:
    if ("result" in answer) == ("error" in answer):
        yield f"{method}: the answer has not exactly one of result and error: {str(answer)[:120]}"
    error = answer.get("error")
    if error is not None and not (isinstance(error.get("code"), int) and isinstance(error.get("message"), str)):
        yield f"{method}: malformed error {str(error)[:120]}"


def _events(received: list[Frame]) -> Iterator[str]:
    """The events of each process are numbered from 1 without a hole; exited and closed come once, closed last."""
    events: dict[str, list[tuple[int, str]]] = {}
    for message in (f.message for f in received):
        if message.get("method") in ("process/output", "process/exited", "process/closed"):
            params = message["params"]
            events.setdefault(params["processId"], []).append((params.get("seq", -1), message["method"]))
            if message["method"] == "process/output":
                yield from _chunk(params)
    for process_id, told in events.items():
        kinds = [kind for _, kind in sorted(told)]
        if sorted(seq for seq, _ in told) != list(range(1, len(told) + 1)):
            yield f"the seqs of {process_id} are not 1 to {len(told)}: {[seq for seq, _ in told[:8]]} …"
        if kinds.count("process/exited") > 1 or "process/closed" in kinds[:-1]:
            yield f"the last events of {process_id} are {kinds[-4:]}"


def _chunk(params: dict[str, Any]) -> Iterator[str]:
    if params["stream"] not in ("stdout", "stderr", "pty"):
        yield f"unknown stream {params['stream']!r}"
    try:
        base64.b64decode(params["chunk"], validate=True)
    except binascii.Error as error:
        yield f"a chunk is not base64: {error}"


def _sizes(received: list[Frame]) -> Iterator[str]:
    for frame in received:
        if max(frame.fragments) > LARGEST_FRAME or sum(frame.fragments) > LARGEST_MESSAGE:
            sizes = f"{sum(frame.fragments)} bytes, its largest frame {max(frame.fragments)}"
            yield f"a message of {sizes} is more than clients take"


def told(frames: Iterable[Frame]) -> list[str]:
    """A recording for people, a line each message: `3.120 > process/start`, `3.130 < error -32004`."""
    asked: dict[tuple[int, Any], str] = {}
    lines = []
    for frame in frames:
        message, arrow = frame.message, ">" if frame.direction == "to server" else "<"
        key = (frame.connection, message.get("id"))
        if "method" in message:
            asked[key] = what = message["method"]
        else:
            what = f"error {message['error'].get('code')}" if "error" in message else "result"
            what += f" of {asked.get(key)}"
        lines.append(f"{frame.seconds:.3f} {arrow} {what}{'' if frame.altered is None else ' (altered)'}")
    return lines
