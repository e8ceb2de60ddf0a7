"""How the server ends what it has no session for."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from actors.base.settings import Settings
from exec_server.server.server import Server
from tests.properties.session_world import ENVIRONMENT
from tests.support.client import session
from tests.support.program import program
from transport.memory import PeerClosedError, memory_pair

pytestmark = pytest.mark.anyio


async def test_a_connection_that_never_spoke_is_told_that_the_server_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: six seconds at each stop of a server that somebody has merely connected to, and the goodbye."""
    monkeypatch.setattr("exec_server.server.server.GOODBYE_S", 3600.0)
    server = Server(Settings(environment=ENVIRONMENT))
    await server.start()
    transport, peer = memory_pair()
    server.connect(transport)
    async with asyncio.timeout(30):
        await server.stop()
        with pytest.raises(PeerClosedError) as closed:
            await peer.receive()
    assert closed.value.code == 1001


async def test_a_stop_is_no_fault_of_what_served_a_session() -> None:
    """Whoever watches the log for errors would be woken at each stop."""
    with program(stderr=subprocess.PIPE) as server:
        async with session(server.url) as client:
            await client.run("p", "/bin/true")
            await client.call("fs/getMetadata", path="/")
            server.stop()
        assert server.popen.stderr is not None
        assert " ERROR " not in server.popen.stderr.read().decode()
