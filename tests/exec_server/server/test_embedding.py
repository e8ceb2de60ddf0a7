"""A server inside somebody else's program: it leaves that program as it found it."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from actors.base.services import SERVICES
from exec_server import (
    AccessError,
    Config,
    ConnectFailed,
    ListenUrlError,
    Unauthorized,
    connect_in_process,
    connect_websocket,
    serve,
)
from tests.support.client import session, start_params
from tests.support.embedded import embedded
from tests.support.program import ROOT, Facts, eventually, marker, running
from tests.support.raw_websocket import RawWebSocket

pytestmark = pytest.mark.anyio

LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_RTTIME)


async def test_nothing_of_a_server_is_left_in_its_host() -> None:
    """Lost: a host program's descriptors, children and signal handlers, little by little."""
    me = Facts(os.getpid())

    async def once() -> str:
        mark = marker()
        async with embedded() as (_, url), session(url) as client:
            await client.run("over", "/bin/true")
            for tty in (False, True):
                shell = await client.shell(f"sh{tty}", f"sleep {mark} & setsid sleep {mark} & echo on; wait", tty=tty)
                await shell.shows(b"on")
            await eventually(lambda: len(running(mark)) == 4, "all run")
        return mark

    for _ in range(2):  # the pool of threads, and whatever else is made once
        await once()
    handlers = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)]
    limits = list(map(resource.getrlimit, LIMITS))
    assert not me.zombies()
    before = me.load()
    mark = await once()
    await eventually(lambda: not running(mark), "its children are gone")
    assert not me.zombies()
    await me.falls_to(before)
    assert [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)] == handlers
    assert list(map(resource.getrlimit, LIMITS)) == limits


async def test_a_session_that_ends_leaves_no_zombies_in_the_host() -> None:
    """Lost: the host's table of processes, slowly, where nothing is started after a session has ended."""
    me = Facts(os.getpid())
    before = me.load()
    async with embedded(session_ttl=0.05) as (_, url):
        async with session(url) as client:
            for n in range(5):
                await client.start(f"p{n}", "/bin/sleep", "1000")
        await eventually(lambda: len(me.children()) <= before[2], "all are reaped", 10.0)


async def test_children_of_the_host_are_its_own() -> None:
    """Lost: the exit status of a child that the host program waits for."""
    async with embedded() as (_, url), session(url) as client:
        own = await asyncio.create_subprocess_exec("/bin/sh", "-c", "exit 7")
        for n in range(20):
            await client.run(f"p{n}", "/bin/true")
        assert await own.wait() == 7


async def test_a_client_that_leaves_in_the_middle_of_anything_leaves_no_session() -> None:
    """Lost: a server that lasts; every actor of a client that is gone ends, wherever it was cut."""
    async with embedded(session_ttl=0.05) as (server, url):
        actors = server._engine.live_actors
        messages = [
            {"id": 1, "method": "initialize", "params": {"clientName": "brief"}},
            {"method": "initialized"},
            {"id": 2, "method": "environment/status"},
            {
                "id": 3,
                "method": "process/start",
                "params": start_params("p", "/bin/sleep", "1000"),
            },
            {"id": 4, "method": "process/read", "params": {"processId": "p", "waitMs": 100_000}},
        ]
        for answers in (0, 1):
            for count in range(len(messages) + 1):
                client = await asyncio.to_thread(RawWebSocket, url)
                client.send(*messages[:count])
                for _ in range(min(answers, count)):
                    await asyncio.to_thread(client.next)
                client.close()
        await eventually(lambda: server._engine.live_actors == actors, "all actors of clients have ended")


async def test_services_are_loaded_before_the_first_request_needs_them() -> None:
    """Lost: everybody's output for as long as the imports take, when the first client asks for a file."""
    code = (
        "import asyncio, sys, threading\n"
        "from exec_server.server.config import Config\n"
        "from exec_server.server.server import Server, settings_of\n"
        "from actors.system.pool import FILE_POOL\n"
        "async def main():\n"
        "    server = Server(settings_of(Config()))\n"
        "    await server.start()\n"
        "    assert FILE_POOL.finish()\n"
        "    print(*sorted(name for name in sys.modules if name.startswith('actors.')))\n"
        "    await server.stop()\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    assert {name.rpartition(".")[0] for name in SERVICES.values()} <= set(ran.stdout.split())


async def test_serve_lets_in_whom_the_settings_name(tmp_path: Path) -> None:
    """Lost: a server inside another program that is as closed as the program of its own."""
    token = tmp_path / "token"
    token.write_text("s3cret-s3cret-s3cret-s3cret-s3cret\n")
    token.chmod(0o600)
    config = Config(listen="ws://127.0.0.1:0", ws_auth="capability-token", ws_token_file=str(token))
    async with serve(config) as server:
        assert server.url is not None
        with pytest.raises(Unauthorized):
            async with connect_websocket(server.url):
                pass
        async with connect_websocket(server.url, token=token.read_text().strip()) as far:
            assert (await far.run(["echo", "far"])).stdout == b"far\n"
        async with connect_in_process(server) as near:
            assert (await near.run(["echo", "near"])).stdout == b"near\n"
    with pytest.raises(ConnectFailed):
        async with connect_websocket(server.url):
            pass


async def test_serve_says_what_is_wrong() -> None:
    with pytest.raises(ListenUrlError, match="nonsense"):
        async with serve(Config(listen="nonsense")):
            pass
    with pytest.raises(AccessError, match=r"/no/such"):
        async with serve(Config(listen="ws://127.0.0.1:0", ws_auth="capability-token", ws_token_file="/no/such")):
            pass
    async with serve() as server:
        assert server.url is None
