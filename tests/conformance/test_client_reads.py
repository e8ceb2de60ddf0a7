"""Our client on the recorded messages of upstream's server, which leaves out what this one adds."""

from __future__ import annotations

import base64
import json
from typing import Any

from exec_server.client.events import Closed, Event, Exited, Gap, Output
from exec_server.client.feed import Feed
from protocol.client_codec import JSON_CLIENT
from protocol.envelope import ErrorResponse, Response
from protocol.methods import METHODS
from protocol.process import ProcessReadResult
from tests.conformance.traces import Trace, load

TRACES = load()
ENVIRONMENT = TRACES["basic"].recv[0]["result"]["environmentInfo"]


def with_chunks(value: Any) -> Any:
    """A message as it was on the wire, where output is base64."""
    if isinstance(value, list):
        return [with_chunks(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: with_chunks(each) for name, each in value.items()}
    if "sessionId" in made:
        made.setdefault("environmentInfo", ENVIRONMENT)  # recorded once
    if "stream" in made and "text" in made:
        made["chunk"] = base64.b64encode(made.pop("text").encode()).decode()
    return made


def methods_of(trace: Trace) -> dict[Any, str]:
    """What was asked under each id that was used once."""
    asked: dict[Any, list[str]] = {}
    for text in trace.send:
        try:
            message = json.loads(text) if isinstance(text, str) else None
        except ValueError:
            continue
        if isinstance(message, dict) and isinstance(message.get("id"), (int, str)):
            asked.setdefault(message["id"], []).append(str(message.get("method")))
    return {id: methods[0] for id, methods in asked.items() if len(methods) == 1}


def read(trace: Trace) -> list[Any]:
    """All that the client makes of what it was told."""
    methods, made = methods_of(trace), []
    for message in trace.recv:
        if not isinstance(message, dict):
            continue  # a remark of whoever recorded it
        decoded = JSON_CLIENT.decode(json.dumps(with_chunks(message)).encode())
        if isinstance(decoded, Response):
            method = METHODS.get(methods.get(decoded.id, ""))
            if method is not None:
                made.append(JSON_CLIENT.decode_result(method.RESULT, decoded.result))
        elif isinstance(decoded, ErrorResponse):
            made.append(JSON_CLIENT.decode_error(decoded))
        elif decoded is not None:
            made.append(decoded)
    return made


def test_every_message_is_understood() -> None:
    """Lost: the use of this client with the other server of the protocol."""
    assert sum(len(read(trace)) for trace in TRACES.values()) > 300


def without_offsets(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(type(each), getattr(each, "seq", 0), getattr(each, "data", b"")) for each in events]


def test_events_without_offsets() -> None:
    """Notified or read, a process is told alike; and a hole without a size is a gap of unknown size."""
    basic = read(TRACES["basic"])
    live = Feed("p1")
    events = [event for message in basic if hasattr(message, "METHOD") for event in live.notified(message)]
    assert [type(event) for event in events] == [Output, Output, Exited, Closed]
    (answer,) = [each for each in basic if isinstance(each, ProcessReadResult)]
    late = Feed("p1")
    late.behind = True
    again = late.read(answer)
    while late.behind:
        rest = ProcessReadResult([], answer.next_seq, answer.exited, answer.exit_code, answer.closed)
        again += late.read(rest)
    assert without_offsets(again) == without_offsets(events)
    holed = Feed("p1")
    holed.behind = True
    chunk = answer.chunks[1]
    first, second = holed.read(ProcessReadResult([chunk], 3, False, None, False))
    assert first == Gap("p1", 1, 1, None)
    assert isinstance(second, Output)
