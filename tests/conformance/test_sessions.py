"""Sessions and connections: the recorded conversations that take two connections, and what goes with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conformance.dialogue import ANY, Dialogue
from tests.conformance.helpers import closed, command, death_of, printed, shell
from tests.conformance.replay import Replay
from tests.conformance.traces import Places, load
from tests.conformance.wires import InProcess, serving

pytestmark = pytest.mark.anyio
TRACES = load()


@asynccontextmanager
async def client(server: InProcess) -> AsyncIterator[Dialogue]:
    async with server.websocket() as wire:
        yield Dialogue(wire)


async def replayed(talk: Dialogue, name: str, folder: Path, session: str = "no session") -> Replay:
    replay = Replay(TRACES[name], talk, Places(folder, session))
    await replay.run()
    return replay


async def test_no_take_over(server: InProcess, tmp_path: Path) -> None:
    """A session that a living connection holds is refused with -32010, and the newcomer may start anew."""
    async with client(server) as first, client(server) as second:
        holder = await replayed(first, "sess/attached", tmp_path)
        assert holder.session is not None
        refused = await replayed(second, "sess/attach-while-attached", tmp_path, holder.session)
        assert refused.differences == set()
        await first.is_alive()
        await second.is_alive()


async def test_resume(server: InProcess, tmp_path: Path) -> None:
    """What ran on and what ended meanwhile can be read; nothing missed is pushed; events go on before `initialized`."""
    async with client(server) as talk:
        before = await replayed(talk, "sess/resume-1", tmp_path)
        assert before.differences == set()
        session = before.session
        assert session is not None
        await closed(talk, "gone")
        last = max(each["params"]["seq"] for each in talk.received if each.get("params", {}).get("processId") == "tick")
    async with client(server) as talk:
        after = await replayed(talk, "sess/resume-2", tmp_path, session)
        steady = {what for what in after.differences if not what.startswith("tick ")}
        assert steady <= {"#4 result.chunks"}, talk.written()
        ticks = [each["params"]["seq"] for each in talk.received if each.get("params", {}).get("processId") == "tick"]
        assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))
        assert ticks[0] > last, "a missed event was pushed"
        read = after.answers[4]["result"]
        assert [chunk["seq"] for chunk in read["chunks"]] == list(range(2, read["nextSeq"]))
        assert next(each["id"] for each in talk.received if "id" in each) == 1


async def test_process_ids_belong_to_sessions(server: InProcess, tmp_path: Path) -> None:
    """Two clients that chose the same id must not meet."""
    async with client(server) as first, client(server) as second:
        assert (await replayed(first, "sess/isolation", tmp_path)).differences == set()
        other = await replayed(second, "sess/isolation-b", tmp_path)
        # Whether so short a command has ended when it is read is a race.
        assert {what for what in other.differences if not what.startswith("#4 result.")} == set()
        await closed(second, "same")
        assert (await first.result("process/read", processId="same"))["exited"] is False


async def test_a_violation_detaches(server: InProcess, tmp_path: Path) -> None:
    """A client that broke the rules gets its processes back."""
    async with client(server) as talk:
        before = await replayed(talk, "sess/violation-detaches", tmp_path)
        assert before.differences == set()
        assert before.session is not None
    async with client(server) as talk:
        after = await replayed(talk, "sess/violation-resume", tmp_path, before.session)
        assert after.differences == set(), talk.written()


@pytest.mark.parametrize("goodbye", ["close", "reset"])
async def test_resume_at_once_after_any_end(server: InProcess, tmp_path: Path, goodbye: str) -> None:
    """A blip costs nothing, even with a long poll and a write under way."""
    async with server.websocket() as wire:
        talk = Dialogue(wire)
        session = (await talk.initialize(resumeSessionId=None))["sessionId"]
        await talk.result("process/start", **shell("nr", "echo ready; exec sleep 500", pipeStdin=True))
        await printed(talk, "nr")
        for number in range(20):
            await talk.send(
                {
                    "id": f"w{number}",
                    "method": "process/write",
                    "params": {"processId": "nr", "writeId": str(number), "chunk": "eHh4" * 32768},
                }
            )
        await talk.send(
            {"id": "lp", "method": "process/read", "params": {"processId": "nr", "afterSeq": 1, "waitMs": 60_000}}
        )
        await talk.answer("w0")
        if goodbye == "reset":
            wire.reset()
        else:
            await talk.close()
    for name in ("sess/resume-during-longpoll", "sess/abort-resume", "write/blocked-then-resume"):
        async with client(server) as talk:
            replay = await replayed(talk, name, tmp_path, session)
            assert replay.differences == set(), talk.written()
            assert replay.session == session


@pytest.mark.parametrize("name", ["sess/resume-expired-close", "sess/resume-expired-abort"])
async def test_an_expired_session_is_gone(tmp_path: Path, name: str) -> None:
    """After its time without a connection its processes are killed and its id is unknown."""
    async with serving(session_ttl=0.2) as server:
        async with server.websocket() as wire:
            talk = Dialogue(wire)
            session = (await talk.initialize(resumeSessionId=None))["sessionId"]
            await talk.result("process/start", **shell("p", "trap '' TERM HUP; echo $$; while :; do sleep 100; done"))
            death = death_of(await printed(talk, "p", 2))
            if name.endswith("abort"):
                wire.reset()
        await death.come()
        async with client(server) as talk:
            assert (await replayed(talk, name, tmp_path, session)).differences == set()


async def test_an_attached_session_does_not_expire() -> None:
    """The clock runs without a connection only, and a resume stops it."""
    async with serving(session_ttl=0.2) as server:
        async with client(server) as talk:
            session = (await talk.initialize(resumeSessionId=None))["sessionId"]
            await talk.result("process/start", **command("p", "sleep", "0.6"))
            await closed(talk, "p")
        async with client(server) as talk:
            await talk.initialize(resumeSessionId=session)
            await talk.result("process/start", **command("q", "sleep", "0.6"))
            await closed(talk, "q")


async def test_a_peer_that_is_gone_does_not_hold_a_session() -> None:
    """A client whose machine died without a word must get its session back from another one."""
    async with serving() as server, server.websocket() as wire:
        talk = Dialogue(wire)
        session = (await talk.initialize(resumeSessionId=None))["sessionId"]
        # This client neither reads nor answers pings any more, as if its machine were gone.
        wire.socket.transport.pause_reading()
        async with client(server) as newcomer:
            resumed = await newcomer.result("initialize", clientName="new", resumeSessionId=session)
            assert resumed["sessionId"] == session
        wire.reset()


async def test_retried_initialize(server: InProcess) -> None:
    """A client whose session is lost goes on with a new one on the same connection."""
    async with client(server) as talk:
        await talk.expect_error(
            await talk.call("initialize", clientName="x", resumeSessionId="nope"), -32600, "unknown session id nope"
        )
        await talk.expect_error(await talk.call("initialize", clientName=5), -32602)
        await talk.initialize(resumeSessionId=None)
        await talk.expect_error(
            await talk.call("initialize", clientName="x"), -32600, "initialize may only be sent once per connection"
        )
        await talk.is_alive()


async def test_handshake_pipelined(talk: Dialogue) -> None:
    """A client need not wait for the answers of the handshake to send what follows."""
    await talk.send({"id": 1, "method": "initialize", "params": {"clientName": "x", "resumeSessionId": None}})
    await talk.send({"method": "initialized"})
    await talk.send({"id": 2, "method": "process/start", "params": command("p", "true")})
    await talk.expect({"id": 1, "result": {"sessionId": ANY}})
    await talk.expect({"id": 2, "result": {"processId": "p", "sandboxType": "none"}})
    await closed(talk, "p")
