"""Who counts as gone, on a real network whose cable can be pulled.

Needs root and iproute2, for a network namespace and a veth pair. Without root these tests are skipped and say so; with
root they fail if `ip` is missing, and are skipped only where the kernel refuses namespaces (an unprivileged container).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.transport.support import Recorder
from transport.admission.rules import Admission
from transport.listen import Listener, WebSocketUrl, serve_websocket

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(os.getuid() != 0, reason="needs root for a network namespace"),
]

INTERVAL = 2.0
GONE_WITHIN = 3 * INTERVAL
OURS, THEIRS = "10.213.77.1", "10.213.77.2"

CLIENT = """
import asyncio, sys
from websockets.asyncio.client import connect
async def main():
    async with connect(sys.argv[1], max_size=None, compression=None, ping_interval=None, proxy=None) as ws:
        print("connected", flush=True)
        total = 0
        while True:
            total += len(await ws.recv())
            print(total, flush=True)
asyncio.run(main())
"""


_numbers = itertools.count()


class Network:
    """A namespace at the other end of a cable."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.name = f"exec-server-{os.getpid()}-{number}"
        self.ours = f"es{os.getpid()}a{number}"
        self.theirs = f"es{os.getpid()}b{number}"
        self.clients: list[asyncio.subprocess.Process] = []

    def set_up(self) -> None:
        assert shutil.which("ip"), "root without iproute2: install it, or run these tests as another user"
        made = subprocess.run(["ip", "netns", "add", self.name], capture_output=True, text=True, check=False)
        if "not permitted" in made.stderr:
            pytest.skip(f"no network namespace to be had here: {made.stderr.strip()}")
        assert made.returncode == 0, made.stderr
        self.ip("link", "add", self.ours, "type", "veth", "peer", "name", self.theirs, "netns", self.name)
        self.ip("addr", "add", f"{OURS}/24", "dev", self.ours)
        self.ip("link", "set", self.ours, "up")
        self.ip("-n", self.name, "addr", "add", f"{THEIRS}/24", "dev", self.theirs)
        self.ip("-n", self.name, "link", "set", self.theirs, "up")

    def pull_the_cable(self) -> None:
        self.ip("-n", self.name, "link", "set", self.theirs, "down")

    def tear_down(self) -> None:
        subprocess.run(["ip", "link", "del", self.ours], check=False)
        subprocess.run(["ip", "netns", "del", self.name], check=False)

    def ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)

    async def client(self, url: str) -> asyncio.subprocess.Process:
        """A client over there that reads whatever comes and says how much."""
        client = await asyncio.create_subprocess_exec(
            "ip", "netns", "exec", self.name, sys.executable, "-c", CLIENT, url, stdout=subprocess.PIPE
        )
        self.clients.append(client)
        assert client.stdout is not None
        assert await client.stdout.readline() == b"connected\n"
        return client


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    network.set_up()
    yield network
    network.tear_down()


@pytest.fixture
async def listener(network: Network, anyio_backend: object) -> AsyncIterator[tuple[Listener, asyncio.Queue[Recorder]]]:
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()
    listener = serve_websocket(
        WebSocketUrl(OURS, 0),
        lambda t: accepted.put_nowait(Recorder(t)),
        admission=Admission(own_user_only=False),  # whose a socket of another namespace is, nobody can say
        ping_interval=INTERVAL,
    )
    yield listener, accepted
    listener.close()
    await listener.wait_closed(0)
    for client in network.clients:
        client.kill()
        await client.wait()


async def test_pulled_cable(network: Network, listener: tuple[Listener, asyncio.Queue[Recorder]]) -> None:
    """A client that vanished without a word is gone within three ping intervals (30 s by default), an idle one too."""
    await network.client(listener[0].url)
    await network.client(listener[0].url)
    idle, busy = await listener[1].get(), await listener[1].get()
    network.pull_the_cable()
    pulled = time.monotonic()
    busy.transport.send(b"x" * 5000)
    for connection in (idle, busy):
        assert "nothing acknowledged" in await asyncio.wait_for(connection.until_closed(), 30)
        assert time.monotonic() - pulled < GONE_WITHIN + INTERVAL


async def test_stopped_client_is_kept_until_the_cable_is_pulled(
    network: Network, listener: tuple[Listener, asyncio.Queue[Recorder]]
) -> None:
    """A stopped reader is waited for, gets every byte when it goes on, and is told from one that is gone."""
    client = await network.client(listener[0].url)
    connection = await listener[1].get()
    assert client.stdout is not None
    size = 32 * 1024 * 1024
    client.send_signal(signal.SIGSTOP)
    connection.transport.send(b"x" * size)
    await asyncio.sleep(4 * GONE_WITHIN)  # it is the passing of time that must have no effect
    assert connection.closed is None
    assert connection.transport.buffered() > 0
    client.send_signal(signal.SIGCONT)
    assert int(await asyncio.wait_for(client.stdout.readline(), 60)) == size

    client.send_signal(signal.SIGSTOP)
    connection.transport.send(b"x" * size)
    await asyncio.sleep(2 * GONE_WITHIN)
    assert connection.closed is None
    network.pull_the_cable()
    pulled = time.monotonic()
    assert "peer is gone" in await asyncio.wait_for(connection.until_closed(), 120)
    assert time.monotonic() - pulled < 45
    client.send_signal(signal.SIGCONT)
