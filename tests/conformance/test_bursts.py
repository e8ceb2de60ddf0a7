"""Many requests at once, and requests that take long: where upstream's server stops or loses its order."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.dialogue import ANY, Dialogue, text_of
from tests.conformance.helpers import closed, command, printed, shell
from tests.conformance.replay import Replay
from tests.conformance.traces import Places, load
from tests.conformance.wires import InProcess

pytestmark = pytest.mark.anyio
TRACES = load()
BURSTS = [name for name in TRACES if name.startswith("burst/")]


def burst(name: str) -> tuple[int, dict[str, Any]]:
    """How many requests, and the first of them."""
    counted, first = TRACES[name].send
    assert isinstance(counted, str)
    assert isinstance(first, str)
    return int(re.match(r"\d+", counted)[0]), json.loads(first)  # type: ignore[index]


def marked(name: str) -> Any:
    count, first = burst(name)
    long = "concurrent" in name or "conc16" in name or count > (300 if first["method"] == "process/start" else 1000)
    return pytest.param(name, marks=pytest.mark.slow if long else ())


@pytest.mark.parametrize("name", [marked(name) for name in BURSTS])
async def test_a_burst_is_answered_whole(server: InProcess, tmp_path: Path, name: str) -> None:
    """Every request of a burst is answered; afterwards the session can be resumed (upstream's was held for ever)."""
    count, first = burst(name)
    async with server.websocket() as wire:
        talk = Dialogue(wire)
        session = (await talk.initialize(resumeSessionId=None))["sessionId"]
        for number in range(count):
            params = first["params"] | {"processId": f"p{number}"}
            await talk.send({"id": number, "method": first["method"], "params": params})
        answers = count + (3 * count if first["method"] == "process/start" else 0)
        while len(talk.received) < 1 + answers:
            await talk.hear(f"message {len(talk.received)} of {answers}")
        assert {each["id"] for each in talk.received[1:] if "result" in each} == set(range(count))
    async with server.websocket() as wire:
        again = Replay(TRACES["deadlock/resume"], Dialogue(wire), Places(tmp_path, session))
        assert await again.run() == {"#1 result"}


async def test_a_wait_holds_up_nothing(talk: Dialogue) -> None:
    """A client that polls can still end what it polls."""
    await talk.initialize()
    await talk.result("process/start", **command("s", "sleep", "1000"))
    for number in range(6):
        await talk.send({"id": number, "method": "process/read", "params": {"processId": "s", "waitMs": 600_000}})
    assert await talk.result("process/terminate", processId="s") == {"running": True}
    for number in range(6):
        await talk.expect({"id": number, "result": {"exited": True, "exitCode": 137}})


async def test_pipelined_writes_stay_in_order(talk: Dialogue) -> None:
    """Input that a client typed in one order must not arrive in another."""
    await talk.initialize()
    await talk.result("process/start", **command("cat", "cat", pipeStdin=True))
    lines = [f"{number}\n".encode() for number in range(500)]
    for number, line in enumerate(lines):
        await talk.send(
            {
                "id": number,
                "method": "process/write",
                "params": {"processId": "cat", "writeId": f"w{number}", "chunk": base64_of(line)},
            }
        )
    assert await printed(talk, "cat", len(b"".join(lines))) == b"".join(lines)


async def test_a_blocked_write_holds_up_nothing(talk: Dialogue) -> None:
    """A child that does not read must not take the connection with it, and its writes are refused in the end."""
    await talk.initialize()
    await talk.result("process/start", **shell("deaf", "echo ready; exec sleep 1000", pipeStdin=True))
    await printed(talk, "deaf")
    for number in range(40):
        await talk.send(
            {
                "id": number,
                "method": "process/write",
                "params": {"processId": "deaf", "writeId": f"w{number}", "chunk": "eHh4" * 32768},
            }
        )
    await talk.expect({"id": 0, "result": {"status": "accepted"}})
    await talk.is_alive()
    assert await talk.result("process/terminate", processId="deaf") == {"running": True}
    await talk.expect({"id": 39, "result": {"status": "stdinClosed"}})


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
async def test_events_come_in_order_behind_their_start(talk: Dialogue, tty: bool) -> None:
    """Clients may act on events as they come: start's answer first, then 1, 2, 3, …, closed last."""
    await talk.initialize()
    for number in range(40):
        script = "echo out; echo err >&2; (echo late) & exit 3"
        await talk.send({"id": number, "method": "process/start", "params": shell(f"p{number}", script, tty=tty)})
    for number in range(40):
        await closed(talk, f"p{number}")
    for number in range(40):
        told = [
            each.get("method", "started")
            for each in talk.received
            if each.get("id") == number or each.get("params", {}).get("processId") == f"p{number}"
        ]
        seqs = [
            each["params"]["seq"] for each in talk.received if each.get("params", {}).get("processId") == f"p{number}"
        ]
        assert told[0] == "started", told
        assert told[-1] == "process/closed", told
        assert seqs == list(range(1, len(seqs) + 1))


async def test_reads_agree_with_what_was_pushed(talk: Dialogue) -> None:
    """A client that joins both ways of getting output must get the same bytes under the same seqs."""
    await talk.initialize()
    await talk.result("process/start", **shell("p", "for i in 1 2 3 4 5; do echo $i; echo e$i >&2; done"))
    await closed(talk, "p")
    pushed = [each["params"] for each in talk.received if each.get("method") == "process/output"]
    read = await talk.result("process/read", processId="p")
    assert [(chunk["seq"], chunk["stream"], chunk["chunk"]) for chunk in read["chunks"]] == [
        (params["seq"], params["stream"], params["chunk"]) for params in pushed
    ]
    assert text_of(read["chunks"]).count(b"\n") == 10
    await talk.expect({"method": "process/exited", "params": {"processId": "p", "exitCode": 0, "seq": ANY}})


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()
