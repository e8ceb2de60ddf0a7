"""Clients that are slow, many, rude or dead."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from tests.support.client import connected, session
from tests.support.program import Program, alive, dial, eventually, marker, program, running
from tests.support.raw_websocket import RawWebSocket, frame
from tests.transport.support import UPGRADE

pytestmark = pytest.mark.anyio


@pytest.fixture
def own_server() -> Iterator[Program]:
    """A server that nobody else uses, so that it can be asked what is left."""
    with program("--session-ttl", "1", "--process-retention", "0") as server:
        yield server


async def serves(server: Program) -> None:
    async with session(server.url) as client:
        assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"


@pytest.mark.slow  # the ten seconds that a head may take
async def test_heads_that_come_a_byte_at_a_time_hold_up_nobody(own_server: Program) -> None:
    """Lost: everybody's server, to some connections that never say what they want; each is ended in 10 s."""
    await serves(own_server)
    before = own_server.load()
    with ExitStack() as cleanup:
        slow = [cleanup.enter_context(dial(own_server)) for _ in range(200)]
        ended: set[socket.socket] = set()
        for at in range(len(UPGRADE) - 1):
            for each in slow:
                try:
                    each.send(UPGRADE[at : at + 1])
                except OSError:
                    ended.add(each)
            if at % 40 == 0:
                await serves(own_server)
        for each in slow:
            assert each in ended or each.recv(100).startswith(b"HTTP/1.1 408")
    await own_server.falls_to(before)


async def test_frames_that_come_a_byte_at_a_time_hold_up_nobody(own_server: Program) -> None:
    """Lost: everybody's server, to clients on bad lines; these are served, however slow."""
    message = {"id": 1, "method": "initialize", "params": {"clientName": "slow", "resumeSessionId": None}}
    frames = frame(msgspec.json.encode(message))
    slow = [RawWebSocket(own_server.url) for _ in range(100)]
    for at in range(len(frames)):
        for each in slow:
            each.socket.sendall(frames[at : at + 1])
        if at % 20 == 0:
            await serves(own_server)
    assert all("sessionId" in each.next()["result"] for each in slow)
    for each in slow:
        each.close()


async def test_two_thousand_connections_that_are_dropped_leave_nothing(own_server: Program) -> None:
    """Lost: the server, after a day of health checks and cut clients."""
    await serves(own_server)
    before, memory = own_server.load(), own_server.rss()
    for number in range(2000):
        with dial(own_server) as dropped:
            match number % 4:
                case 1:
                    dropped.sendall(UPGRADE[:50])
                case 2:
                    dropped.sendall(UPGRADE)
                case 3:  # a reset, with data on the way
                    dropped.sendall(UPGRADE + frame(b'{"id":1,"method":"environment/status"}'))
                    dropped.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if number % 500 == 0:
            await serves(own_server)
    await own_server.falls_to(before)
    assert own_server.rss() - memory < 32 << 20
    await serves(own_server)


WRITER = """
import sys
from tests.support.raw_websocket import RawWebSocket, frame
import msgspec, base64
client = RawWebSocket(sys.argv[1])
client.initialize()
start = {"processId": "p", "argv": ["/bin/sh", "-c", "cat >/dev/null; exec sleep " + sys.argv[2]],
         "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}, "tty": False, "pipeStdin": True, "onDisconnect": "terminate"}
client.send({"id": 1, "method": "process/start", "params": start})
print("ready", flush=True)
chunk = base64.b64encode(bytes(1 << 19)).decode()
number = 0
while True:
    number += 1
    params = {"processId": "p", "chunk": chunk, "writeId": str(number)}
    client.socket.sendall(frame(msgspec.json.encode({"id": 2, "method": "process/write", "params": params})))
    print("wrote", flush=True)
    if number % 4 == 0:
        client.next()
"""


async def test_clients_that_are_killed_in_mid_write_leave_nothing(own_server: Program) -> None:
    """Lost: the machine, to processes of clients that have crashed."""
    await serves(own_server)
    before, mark = own_server.load(), marker()
    argv = [sys.executable, "-c", WRITER, own_server.url, mark]
    with ExitStack() as cleanup:
        writers = []
        for _ in range(3):
            writers.append(cleanup.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE)))
            cleanup.callback(writers[-1].kill)
        for writer in writers:
            assert writer.stdout is not None
            for _ in range(4):
                await asyncio.to_thread(writer.stdout.readline)
            writer.send_signal(signal.SIGKILL)
            await asyncio.to_thread(writer.wait)
            await serves(own_server)
    await own_server.falls_to(before)
    assert not running(mark)


async def test_nothing_is_alive_three_seconds_after_the_server_was_killed() -> None:
    """Lost: a clean machine after `kill -9` of the server in the middle of 50 children on pipes and terminals."""
    mark = marker()
    with program() as server:
        async with connected(server.url) as client:
            await client.initialize()
            script = f"trap '' HUP TERM INT; while :; do echo busy; sleep 0.3; done & exec sleep {mark}"
            started = [client.shell(f"p{n}", script, tty=n % 2 == 1, keep=False) for n in range(50)]
            for process in await asyncio.gather(*started):
                await client.until(lambda process=process: sum(process.sizes.values()) > 0)
            await eventually(lambda: len(running(mark)) == 50, "all run")
            children = [pid for pid in server.children() for pid in (pid, *descendants(pid))]
            assert len(children) >= 100
            server.popen.kill()
            await asyncio.to_thread(server.wait)
            await eventually(lambda: not any(alive(pid) for pid in children), "all are gone", 3.0)
        assert not running(mark)


def descendants(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(each) for each in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [found for child in children for found in (child, *descendants(child))]
