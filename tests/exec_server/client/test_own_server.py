"""Servers of one's own: in this process, and as a child on stdio."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from actors.process.spawn_request import LocalStart
from exec_server import (
    ConnectFailed,
    Failed,
    TransportDisconnected,
    connect_in_process,
    connect_websocket,
    spawn_local_server,
)
from exec_server.client import local_server, stdio
from protocol.errors import InvalidParams, InvalidRequest, MethodNotFound, SpawnError
from protocol.process import ProcessListParams, ProcessReadParams
from tests.support.embedded import embedded
from tests.support.program import ROOT, Facts, alive, eventually, marker, running

pytestmark = pytest.mark.anyio


async def test_nothing_of_an_in_process_server_is_left() -> None:
    """Lost: descriptors and children of whoever embeds it, little by little."""
    me = Facts(os.getpid())
    mark = marker()

    async def once() -> None:
        async with connect_in_process() as client:
            await client.run(["true"])
            await client.start(["sh", "-c", f"setsid sleep {mark} & wait"])
            await eventually(lambda: running(mark), "it runs")

    for _ in range(2):  # the pool of threads is made once
        await once()
    before = me.load()
    await once()
    await eventually(lambda: not running(mark), "its children are gone")
    await me.falls_to(before)


async def test_clients_in_process_share_a_server_with_others() -> None:
    """Lost: an embedding program's own way to what its clients see."""
    async with embedded() as (server, url), connect_websocket(url) as far, connect_in_process(server) as near:
        watched = await far.start(["cat"], stdin=subprocess.PIPE, process_id="theirs")
        listed = await near.call(ProcessListParams(far.session_id))
        assert "theirs" in repr(listed)
        read = near.call(ProcessReadParams("theirs", wait_ms=60_000, session_id=far.session_id))
        reading = asyncio.create_task(read)
        await watched.write(b"seen")
        assert b"seen" in repr(await reading).encode()
        with pytest.raises(InvalidRequest, match="unknown session id"):
            await near.call(ProcessListParams("none"))
        assert (await near.run(["echo", "still"])).stdout == b"still\n"


class Rename(ProcessListParams, frozen=True):
    """A request that this server does not have."""

    METHOD = "process/rename"


async def test_params_are_checked_as_on_a_wire() -> None:
    """Lost: an actor, to a value that no decoder has seen."""
    async with connect_in_process() as client:
        with pytest.raises(InvalidParams, match="rows"):
            await client.start(["true"], tty=True, rows=70_000)
        with pytest.raises(InvalidParams, match="env"):
            await client.start(["true"], env={"A": 1})  # type: ignore[dict-item]
        with pytest.raises(MethodNotFound):
            await client.call(Rename())


async def test_a_server_that_stops_tells_its_clients_in_process() -> None:
    async with embedded() as (server, _), connect_in_process(server) as client:
        process = await client.start(["sleep", "1000"])
        await server.stop()
        assert [type(event) async for event in process.events][-1] is Failed
        with pytest.raises(TransportDisconnected, match="the server is shutting down"):
            await client.run(["true"])


async def test_what_waits_in_process_is_bounded() -> None:
    """Lost: memory, when the program has no time to receive: the children wait, as for a slow socket."""
    async with embedded() as (server, _), connect_in_process(server) as client:
        client._session.facts = msgspec.structs.replace(client._session.facts, extensions=[])  # it cannot hold
        process = await client.start(["head", "-c", "40000000", "/dev/zero"])
        (transport,) = server._bridges
        await eventually(lambda: transport.buffered() > server.settings.outbound_high_water, "the server has to wait")
        assert transport.buffered() < 4 << 20
        assert sum([len(chunk) async for chunk in process.stdout]) == 40_000_000


async def test_a_local_server_dies_with_its_client() -> None:
    """Lost: servers and their children that nobody has a hold of, after a program was killed."""
    mark = marker()
    code = f"""
import asyncio, exec_server
async def main():
    async with exec_server.spawn_local_server() as client:
        await client.start(["sleep", "{mark}"])
        print("on", flush=True)
        await asyncio.sleep(1000)
asyncio.run(main())
"""
    program = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    with program:
        assert program.stdout is not None
        assert await asyncio.to_thread(program.stdout.readline) == b"on\n"
        assert running(mark)
        servers = Facts(program.pid).children()
        assert servers
        program.send_signal(signal.SIGKILL)
    await eventually(lambda: not running(mark) and not any(map(alive, servers)), "server and child are gone")


async def test_a_local_server_ends_with_the_block() -> None:
    me = Facts(os.getpid())
    before = me.load()
    async with spawn_local_server() as client:
        assert (await client.run(["echo", "hi"])).stdout == b"hi\n"
        with pytest.raises(ValueError, match="argv"):
            await client.start([])
    await me.falls_to(before)


async def test_a_command_that_is_no_server_is_told() -> None:
    with pytest.raises(ConnectFailed, match="cannot start /no/such: No such file"):
        async with spawn_local_server(["/no/such"]):
            pass
    with pytest.raises(ConnectFailed, match="ended the connection before it answered initialize"):
        async with spawn_local_server(["true"]):
            pass
    with pytest.raises(ConnectFailed, match="no message of the protocol"):
        async with spawn_local_server(["echo", "welcome"]):
            pass
    with pytest.raises(ConnectFailed, match="no answer to initialize"):
        async with spawn_local_server(["sh", "-c", "cat >/dev/null"], initialize_timeout=0.1):
            pass


async def test_a_command_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: a program that waits for ever at the end of a block."""
    monkeypatch.setattr(stdio, "CLOSE_S", 0.1)
    monkeypatch.setattr(local_server, "END_S", 0.1)
    mark = marker()
    with pytest.raises(ConnectFailed):
        async with spawn_local_server(["sleep", mark], initialize_timeout=0.1):
            pass
    assert not running(mark)


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
async def test_descriptors_that_are_passed_have_the_same_numbers(tty: bool) -> None:
    """Lost: what subprocess can do, for whoever moves to a server in the same process. No other descriptor leaks."""
    theirs, ours = os.pipe()
    other, its_end = os.pipe()
    os.set_inheritable(other, True)
    try:
        async with connect_in_process() as client:
            for _ in range(2):  # through a thread, and without one
                os.write(ours, b"passed\n")
                script = f"head -n 1 /proc/self/fd/{theirs}; ls /proc/self/fd | tr '\\n' ' '"
                process = await client.start(["sh", "-c", script], tty=tty, pass_fds=[theirs])
                lines = (await process.stdout.read()).split()
                assert lines[0] == b"passed"
                # ls itself has one for the folder; the shell may have a copy of the terminal
                assert str(theirs).encode() in lines[1:] and str(other).encode() not in lines[1:]
    finally:
        for fd in (theirs, ours, other, its_end):
            os.close(fd)


async def test_no_client_of_another_process_has_a_way_to_pass_descriptors() -> None:
    """Lost: the server's own descriptors, secrets and sockets among them, to any client that guesses a number."""
    fd = os.open("/dev/null", os.O_RDONLY)
    try:
        async with embedded() as (_, url), connect_websocket(url) as far:
            with pytest.raises(NotImplementedError, match="pass_fds"):
                await far.start(["true"], pass_fds=[fd])
            script = ["sh", "-c", "ls /proc/self/fd | tr '\\n' ' '"]
            params = LocalStart("p", script, "/", {}, False, pass_fds=(fd,))  # on the wire it has the member `passFds`
            far._session.post(params, pass_fds=(fd,))
            await far._session.call(ProcessListParams())
            process = await far.attach("p")
            assert str(fd).encode() not in (await process.stdout.read()).split()
    finally:
        os.close(fd)


@pytest.mark.parametrize("fd", [1, 1 << 20], ids=["a standard stream", "not open"])
async def test_a_descriptor_that_cannot_be_passed(fd: int) -> None:
    async with connect_in_process() as client:
        with pytest.raises(SpawnError, match=f"pass_fds: {fd}"):
            await client.start(["true"], pass_fds=[fd])
        assert (await client.run(["true"])).returncode == 0
