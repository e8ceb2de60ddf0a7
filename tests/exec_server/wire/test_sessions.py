"""What outlives a connection, for how long, and who gets it back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import ENV, Client, RpcError, connected, expect_error, result_of, session, start_params
from tests.support.program import Program, eventually, marker, program, running
from tests.support.raw_websocket import RawWebSocket

pytestmark = pytest.mark.anyio

TREE = "sleep {0} & setsid sleep {0} & nohup sleep {0} & echo ready; sleep {0}"
"""Four sleeps, one of them in a session of its own."""


@asynccontextmanager
async def resumed(url: str, session_id: str, until_free: bool = False) -> AsyncIterator[Client]:
    """A client that has resumed a session. `until_free`: ask again while the server has not noticed the cut."""
    async with connected(url) as client:
        while True:
            try:
                await client.initialize(session_id)
                break
            except RpcError as error:
                if not until_free or error.code != -32010:
                    raise
        yield client


async def test_a_cut_loses_nothing(server: Program, tmp_path: Path) -> None:
    """Lost: a build of two hours at a network blip (ttyd#1397); what was missed is read, without hole or double."""
    script = "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i + 1)); [ -e {} ] || sleep 0.002; done; exit 3"
    async with session(server.url) as client:
        shell = await client.shell("sh", script.format(tmp_path / "hurry"))
        await shell.shows(b"line 20\n")
        await client.abort()
    seen = {seq: chunk for seq, _, chunk in shell.chunks}
    for _ in range(3):
        async with resumed(server.url, client.session_id, until_free=True) as again:
            live = again.processes.get("sh") or again.follow("sh")
            missed = await live.read(afterSeq=max(seen), waitMs=10_000)
            add(seen, chunks_of(missed))
            await again.until(lambda live=live: len(live.chunks) > 20)
            await again.abort()
            add(seen, {seq: chunk for seq, _, chunk in live.chunks})
    (tmp_path / "hurry").touch()
    async with resumed(server.url, client.session_id, until_free=True) as again:
        live = again.processes.get("sh") or again.follow("sh")
        missed = await live.read(afterSeq=max(seen))
        add(seen, chunks_of(missed))
        if not missed["closed"]:
            await live.closed()
        add(seen, {seq: chunk for seq, _, chunk in live.chunks})
        assert sorted(seen) == list(range(1, len(seen) + 1))
        assert b"".join(seen[seq] for seq in sorted(seen)) == b"".join(b"line %d\n" % n for n in range(300))
        assert (await live.read())["exitCode"] == 3


def chunks_of(result: dict[str, Any]) -> dict[int, bytes]:
    from base64 import b64decode

    return {chunk["seq"]: b64decode(chunk["chunk"]) for chunk in result["chunks"]}


def add(seen: dict[int, bytes], more: dict[int, bytes]) -> None:
    """What two ways bring twice must be the same."""
    for seq, chunk in more.items():
        assert seen.setdefault(seq, chunk) == chunk


async def test_a_terminal_goes_on_over_a_cut(server: Program) -> None:
    """Lost: the shell in which somebody was typing; also a line of 8,000 bytes after it (E2B#1352)."""
    async with session(server.url) as client:
        shell = await client.start("sh", "/bin/sh", tty=True, env={**ENV, "PS1": "# "})
        await shell.write(b"stty -echo raw; WORD=kept; echo set\n")
        await shell.shows(b"set\n# ")
        await client.abort()
    async with resumed(server.url, client.session_id, until_free=True) as again:
        shell = again.follow("sh")
        await shell.write(b"echo $WORD\n")
        await shell.shows(b"kept")
        for _ in range(5):
            await shell.write(b"printf '%s' " + b"y" * 7000 + b"\necho\n")
        await again.until(lambda: shell.output().count(b"y") >= 5 * 7000)
        await shell.write(b"exit 6\n")
        assert (await shell.exited())["exitCode"] == 6


async def test_events_flow_at_once_after_a_resume(server: Program) -> None:
    """Lost: output between the answer to `initialize` and `initialized` (docs/protocol.md, "Sessions")."""
    async with session(server.url) as client:
        await client.shell("sh", "while :; do echo x; sleep 0.01; done")
        await client.abort()
    async with connected(server.url) as again:
        shell = again.follow("sh")
        while True:
            try:
                result = await again.call("initialize", clientName="again", resumeSessionId=client.session_id)
                break
            except RpcError as error:
                assert error.code == -32010
        assert result["sessionId"] == client.session_id
        await shell.shows(b"x\n")
        error = await expect_error(shell.terminate())
        assert (error.code, error.message) == (-32600, "client must send initialized before using exec methods")
        await again.notify("initialized")
        assert await shell.terminate()


async def test_a_living_connection_keeps_its_session(server: Program) -> None:
    """Lost: a session to somebody who has its id while its owner is there."""
    async with session(server.url) as client, connected(server.url) as thief:
        cat = await client.start("cat", "/bin/cat", pipeStdin=True)
        error = await expect_error(thief.initialize(client.session_id))
        assert error.code == -32010
        assert error.message == f"session {client.session_id} is already attached to another connection"
        await cat.write(b"still here")
        await cat.shows(b"still here")
        assert (await thief.initialize())["sessionId"] != client.session_id


async def test_a_peer_that_answers_nothing_is_displaced(server: Program) -> None:
    """Lost: a session behind a half-open connection; of several who want it, one gets it."""
    dead = await asyncio.to_thread(RawWebSocket, server.url)
    session_id = await asyncio.to_thread(dead.initialize)
    dead.send({"id": 1, "method": "process/start", "params": start_params("cat", "/bin/cat", pipeStdin=True)})
    assert "result" in await asyncio.to_thread(dead.next)
    async with connected(server.url) as a, connected(server.url) as b:
        results = await asyncio.gather(a.initialize(session_id), b.initialize(session_id), return_exceptions=True)
        errors = [each for each in results if isinstance(each, RpcError)]
        assert [error.code for error in errors] == [-32010], results
        winner = b if isinstance(results[0], RpcError) else a
        cat = winner.follow("cat")
        await cat.write(b"mine")
        await cat.shows(b"mine")
        await cat.terminate()
    dead.close()


async def test_a_stopped_client_is_displaced(server: Program) -> None:
    """Lost: a session whose client hangs: its kernel still acknowledges, but it answers nothing."""
    code = (
        "import sys; from tests.support.raw_websocket import RawWebSocket; c = RawWebSocket(sys.argv[1]);"
        "print(c.initialize(), flush=True);\nwhile True: c.next()"
    )
    import sys

    from tests.support.program import launched

    with launched([sys.executable, "-c", code, server.url], stdout=-1) as client:
        assert client.stdout is not None
        session_id = (await asyncio.to_thread(client.stdout.readline)).decode().strip()
        client.send_signal(signal.SIGSTOP)
        async with connected(server.url) as again:
            assert (await again.initialize(session_id))["sessionId"] == session_id


async def test_unknown_sessions_and_second_handshakes(server: Program) -> None:
    """Lost: a clear answer, and another try on the same connection."""
    async with connected(server.url) as client:
        for wrong in ("", "00000000-0000-4000-8000-000000000000"):
            error = await expect_error(client.initialize(wrong))
            assert (error.code, error.message) == (-32600, f"unknown session id {wrong}")
        await client.initialize()
        error = await expect_error(client.initialize())
        assert (error.code, error.message) == (-32600, "initialize may only be sent once per connection")
        assert (await client.run("true", "/bin/true")).code == 0


async def test_two_sessions_may_use_the_same_process_id(server: Program) -> None:
    """Lost: clients that know nothing of each other."""
    async with session(server.url) as one, session(server.url) as two:
        first = await one.start("same", "/bin/cat", pipeStdin=True)
        second = await two.start("same", "/bin/cat", pipeStdin=True)
        await first.write(b"1")
        await second.write(b"2")
        assert (await first.shows(b"1"), await second.shows(b"2")) == (b"1", b"2")


async def test_a_write_repeated_after_a_resume_is_written_once(server: Program) -> None:
    """Lost: a client that repeats what it is not sure of after a blink (codex PR#28512)."""
    async with session(server.url) as client:
        head = await client.start("head", "/usr/bin/head", "-c", "5", pipeStdin=True)
        assert await head.write(b"once", "unsure") == "accepted"
        await client.abort()
    async with resumed(server.url, client.session_id, until_free=True) as again:
        head = again.follow("head")
        assert await head.write(b"once", "unsure") == "accepted"
        assert await head.write(b"!", "next") == "accepted"
        await head.exited()
        assert b"".join(chunks_of(await head.read()).values()) == b"once!"


async def test_a_cut_frees_what_a_blocked_write_and_a_long_poll_hold(server: Program) -> None:
    """Lost: a way back into a session in which something hangs."""
    async with session(server.url) as client:
        await client.start("deaf", "/bin/sleep", "1000", pipeStdin=True)
        for _ in range(12):
            await client.send("process/write", **client.write_params("deaf", bytes(1 << 18)))
        await client.send("process/read", processId="deaf", waitMs=3_600_000)
        await client.run("true", "/bin/true")
        await client.abort()
    async with resumed(server.url, client.session_id, until_free=True) as again:
        deaf = again.follow("deaf")
        assert await deaf.terminate() is True
        assert (await deaf.exited())["exitCode"] == 137


async def test_a_session_without_a_connection_ends_in_time() -> None:
    """Lost: a machine full of what clients left; the whole tree goes, other sessions stay."""
    mark, kept = marker(), marker()
    job = f"trap '' HUP; setsid sleep {mark} >/dev/null 2>&1 & :"
    with program("--session-ttl", "0.3") as server:
        async with session(server.url) as other:
            await other.shell("sh", TREE.format(kept))
            async with session(server.url) as client:
                for tty in (False, True):
                    shell = await client.shell(f"sh{tty}", TREE.format(mark), tty=tty)
                    await shell.shows(b"ready")
                    await client.run(f"job{tty}", "/bin/sh", "-c", job, tty=tty)
                await eventually(lambda: len(running(mark)) == 10, "all run")
                await client.abort()
            await eventually(lambda: not running(mark), "the session is gone")
            assert len(running(kept)) == 4
            async with connected(server.url) as again:
                error = await expect_error(again.initialize(client.session_id))
                assert error.message == f"unknown session id {client.session_id}"
        await eventually(lambda: not running(kept), "the other session is gone")
        await eventually(lambda: not server.zombies(), "all are reaped")


async def test_each_resume_stops_the_clock() -> None:
    """Lost: a session that somebody has come back to."""
    with program("--session-ttl", "0.5") as server:
        async with session(server.url) as client:
            cat = await client.start("cat", "/bin/cat", pipeStdin=True)
            await client.abort()
        for n in range(4):
            async with resumed(server.url, client.session_id, until_free=True) as again:
                cat = again.follow("cat")
                await cat.read(waitMs=200)
                await cat.write(b"%d" % n, f"w{n}")
                await again.abort()
        async with resumed(server.url, client.session_id, until_free=True) as again:
            cat = again.follow("cat")
            await cat.read(waitMs=700)
            await cat.write(b"!", "last")
            await cat.shows(b"!")


async def test_a_finished_process_is_forgotten_in_time_and_its_job_lives_on(tmp_path: Path) -> None:
    """Lost: the id, which is free again; not the background job (docs/wire-spec.md, "Processes")."""
    mark = marker()
    with program("--process-retention", "0.4") as server:
        async with session(server.url) as client:
            shell = await client.shell("sh", f"sleep {mark} >/dev/null 2>&1 & echo kept")
            await shell.closed()
            assert len((await shell.read())["chunks"]) == 1
            while True:
                try:
                    await shell.read(waitMs=5)
                except RpcError as error:
                    assert error.message == "unknown process id sh"
                    break
            assert await shell.write(b"x") == "unknownProcess"
            assert len(running(mark)) == 1
            assert (await client.run("sh", "/bin/echo", "again")).stdout == b"again\n"
            assert len(running(mark)) == 1
            await client.abort()
        assert len(running(mark)) == 1, "the session lives on, and with it the job"
    await eventually(lambda: not running(mark), "the job ends with the server")


async def test_closing_properly_detaches_as_well(server: Program) -> None:
    """Lost: a session whose client went away politely."""
    async with session(server.url) as client:
        await client.start("sleep", "/bin/sleep", "1000")
    async with resumed(server.url, client.session_id, until_free=True) as again:
        assert await again.follow("sleep").terminate() is True


async def test_a_protocol_violation_only_detaches(server: Program) -> None:
    """Lost: the processes of a client that sent one wrong notification (docs/protocol.md, "Messages")."""
    async with session(server.url) as client:
        await client.start("sleep", "/bin/sleep", "1000")
        await client.notify("process/start")
        await client.lost.wait()
    async with resumed(server.url, client.session_id, until_free=True) as again:
        assert await again.follow("sleep").terminate() is True


async def test_a_seed_era_client(server: Program) -> None:
    """Lost: clients of the first generation: no session, errors instead of statuses, native paths."""
    mark = marker()
    async with connected(server.url) as client:
        result = await client.call("initialize", clientName="seed")
        assert result["protocolVersion"] == "exec-server.v0"
        await client.notify("initialized")
        cat = client.follow("cat", 1)
        params = {"processId": "cat", "argv": ["/bin/cat"], "cwd": "/tmp", "env": {}, "tty": True, "arg0": None}
        assert (await client.call("process/start", **params))["processId"] == "cat"
        assert (await client.call("process/write", processId="cat", chunk="aGkK"))["accepted"] is True
        await cat.shows(b"hi\r\nhi\r\n")
        error = await expect_error(client.call("process/write", processId="nobody", chunk="aGkK"))
        assert (error.code, error.message) == (-32600, "unknown process id nobody")
        silent = await client.shell("silent", TREE.format(mark), cwd="/")
        error = await expect_error(client.call("process/write", processId="silent", chunk="aGkK"))
        assert (error.code, error.message) == (-32600, "stdin is closed for process silent")
        error = await expect_error(client.call("no/such"))
        assert (error.code, error.message) == (-32600, "unknown method: no/such")
        await silent.shows(b"ready")
        await eventually(lambda: len(running(mark)) == 4, "all run")
        await client.abort()
    await eventually(lambda: not running(mark), "all end with the connection")
    async with connected(server.url) as again:
        error = await expect_error(again.initialize(result["sessionId"]))
        assert error.message == f"unknown session id {result['sessionId']}"


async def test_a_child_that_ignores_hangups_ends_with_its_session() -> None:
    """Lost: certainty that a session's end is the end of its children, signals ignored or not."""
    mark = marker()
    script = f"trap '' HUP TERM INT QUIT; echo ready; sleep {mark} & wait; sleep {mark}"
    with program("--session-ttl", "0.1") as server:
        async with session(server.url) as client:
            for tty in (False, True):
                shell = await client.shell(f"sh{tty}", script, tty=tty)
                await shell.shows(b"ready")
            pids = running(mark)
            os.kill(pids[0], signal.SIGSTOP)
            await client.abort()
        await eventually(lambda: not running(mark), "all are gone")


async def test_requests_before_the_handshake_are_refused(server: Program) -> None:
    """Lost: a clear answer to a client that skips the handshake (docs/protocol.md, "initialize")."""
    async with connected(server.url) as client:
        error = await expect_error(client.start("x", "/bin/true"))
        assert (error.code, error.message) == (-32600, "client must call initialize before using exec methods")
        started = await client.send("initialize", clientName="pipelining", resumeSessionId=None)
        await client.notify("initialized")
        process = client.follow("x", 1)
        await result_of(await client.send("process/start", **start_params("x", "/bin/true")))
        await result_of(started)
        assert (await process.closed()).code == 0
