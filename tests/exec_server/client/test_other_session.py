"""Processes of another session: `client.session`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from exec_server import Closed, ExecServerClient, Exited, Failed, Gap, Output, connect_in_process, connect_websocket
from exec_server.client.event_buffer import HOLD_FROM
from protocol.errors import InvalidRequest, UnknownProcess
from tests.exec_server.server.test_embedding import embedded
from tests.support.cutting_proxy import CuttingProxy
from tests.support.program import Program, eventually

pytestmark = pytest.mark.anyio

PIPE = -1


@pytest.fixture
async def pair(server: Program) -> AsyncIterator[tuple[ExecServerClient, ExecServerClient]]:
    """Who started, and who looks."""
    async with connect_websocket(server.url) as owner, connect_websocket(server.url) as guest:
        yield owner, guest


async def test_a_handle_of_another_session_does_what_a_handle_does(
    pair: tuple[ExecServerClient, ExecServerClient],
) -> None:
    """Lost: what a program has left running, for another one that knows the id of its session."""
    owner, guest = pair
    own = await owner.start(["sh", "-c", "read a; echo got $a; echo error >&2; exit 3"], stdin=PIPE)
    session = guest.session(owner.session_id)
    (entry,) = await session.list()
    assert (entry.process_id, entry.running) == (own.process_id, True)
    process = await session.attach(own.process_id)
    assert (process.args, process.tty, process.returncode) == (own.args, False, None)
    reading = asyncio.create_task(process.stdout.readline())
    await process.write(b"input\n")
    assert await reading == b"got input\n"
    assert await process.stderr.read() == b"error\n"
    status = await process.wait()
    assert (status, status.reason, process.returncode) == (3, "exited", 3)
    assert await own.communicate() == (b"got input\n", b"error\n")  # the owner has lost nothing
    kinds = [type(event) async for event in (await session.attach(own.process_id)).events]
    assert kinds == [Output, Output, Exited, Closed]
    assert (await session.attach(own.process_id)).returncode == 3


async def test_signals_and_ends(pair: tuple[ExecServerClient, ExecServerClient]) -> None:
    owner, guest = pair
    one, two, three = [await owner.start(["sleep", "1000"]) for _ in range(3)]
    session = guest.session(owner.session_id)
    await (await session.attach(one.process_id)).signal(signal.SIGINT)
    assert (await one.wait()).signal == "SIGINT"
    assert await (await session.attach(two.process_id)).terminate()
    assert (await two.wait()).signal == "SIGTERM"
    async with await session.attach(three.process_id) as process:
        assert process.returncode is None
    assert three.returncode is None  # the end of the block has not killed it
    assert await process.kill()
    assert (await process.wait()).signal == "SIGKILL"


async def test_a_terminal_of_another_session(pair: tuple[ExecServerClient, ExecServerClient]) -> None:
    owner, guest = pair
    shell = await owner.start(["sh"], tty=True, env={"PS1": "", "PATH": "/usr/bin:/bin"})
    process = await guest.session(owner.session_id).attach(shell.process_id)
    assert process.tty
    await process.resize(33, 44)
    await process.write(b"stty size; exit\n")
    assert b"33 44" in await process.stdout.read()


async def test_a_wait_reads_no_output(pair: tuple[ExecServerClient, ExecServerClient]) -> None:
    """Lost: the end of a command that has printed more than a client holds."""
    owner, guest = pair
    flood = await owner.start(["head", "-c", str(2 * HOLD_FROM), "/dev/zero"])
    process = await guest.session(owner.session_id).attach(flood.process_id)
    waiting = asyncio.create_task(process.wait())
    await flood.communicate()
    assert await waiting == 0
    assert process._buffer.size == 0


async def test_what_is_retained(pair: tuple[ExecServerClient, ExecServerClient]) -> None:
    """Lost: a look at the output of a command that goes on, as far as it is there."""
    owner, guest = pair
    own = await owner.start(["sh", "-c", "echo begun; read a; head -c 3000000 /dev/zero"], stdin=PIPE)
    assert await own.stdout.readline() == b"begun\n"
    process = await guest.session(owner.session_id).attach(own.process_id)
    for _ in range(2):
        (event,) = [event async for event in process.retained()]
        assert isinstance(event, Output) and event.data == b"begun\n"
    assert [type(event) async for event in own.retained()] == [Output]
    await own.communicate(b"\n")
    events = [event async for event in process.retained()]
    assert isinstance(events[0], Gap)
    assert [type(event) for event in events[-2:]] == [Exited, Closed]
    held = sum(len(event.data) for event in events if isinstance(event, Output))
    assert events[0].size is not None
    assert events[0].size + held == 3_000_006


async def test_who_does_not_read_holds_neither_the_process_nor_memory() -> None:
    """Lost: the client's memory, or the progress of a command that a guest looks at."""
    async with (
        embedded(retained_output=64 << 20) as (_, url),
        connect_websocket(url) as owner,
        connect_websocket(url) as guest,
    ):
        flood = await owner.start(["head", "-c", "30000000", "/dev/zero"])
        process = await guest.session(owner.session_id).attach(flood.process_id)
        assert await process.stdout.read(1) == b"\0"
        assert len((await flood.communicate())[0]) == 30_000_000
        await eventually(lambda: process._buffer.size >= HOLD_FROM, "it reads ahead")
        assert process._buffer.size < 2 * HOLD_FROM
        assert len(await process.stdout.read()) == 29_999_999


async def test_a_cut_is_not_seen() -> None:
    async with (
        embedded() as (_, url),
        CuttingProxy(url) as proxy,
        connect_websocket(url) as owner,
        connect_websocket(proxy.url) as guest,
    ):
        own = await owner.start(["sh", "-c", "echo one; read a; echo two"], stdin=PIPE)
        process = await guest.session(owner.session_id).attach(own.process_id)
        assert await process.stdout.readline() == b"one\n"
        proxy.cut()
        await own.write(b"\n")
        assert await process.stdout.read() == b"two\n"
        assert await process.wait() == 0


async def test_what_is_not_there(pair: tuple[ExecServerClient, ExecServerClient]) -> None:
    owner, guest = pair
    with pytest.raises(UnknownProcess):
        await guest.session(owner.session_id).attach("nobody")
    with pytest.raises(InvalidRequest):
        await guest.session("no-such-session").list()


async def test_whoever_reads_hears_of_the_end_of_the_client(server: Program) -> None:
    """Lost: a task that reads for ever from a client that is closed."""
    async with connect_websocket(server.url) as owner:
        own = await owner.start(["sleep", "1000"])
        async with connect_websocket(server.url) as guest:
            process = await guest.session(owner.session_id).attach(own.process_id)
            reading = asyncio.create_task(anext(aiter(process.events)))
            await eventually(lambda: process._buffer._waiters, "it reads")
        event = await reading
        assert isinstance(event, Failed)
        assert event.kind == "disconnected"
        assert own.returncode is None


async def test_in_this_process() -> None:
    async with (
        embedded() as (server, url),
        connect_websocket(url) as owner,
        connect_in_process(server) as guest,
    ):
        own = await owner.start(["sh", "-c", "echo far; exit 2"])
        process = await guest.session(owner.session_id).attach(own.process_id)
        assert await process.communicate() == (b"far\n", b"")
        assert await process.wait() == 2
