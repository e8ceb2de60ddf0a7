"""The recorded conversations about files that need a server without privileges, or two connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from tests.conformance import disk
from tests.conformance.dialogue import Dialogue
from tests.conformance.replay import Replay
from tests.conformance.traces import Places, load
from tests.conformance.wires import WebSocketWire, serving
from tests.support.program import Program, powerless, program

pytestmark = pytest.mark.anyio
TRACES = load()


@pytest.fixture
def denied(tmp_path: Path) -> Iterator[Path]:
    disk.build_denied(tmp_path)
    yield tmp_path
    disk.open_again(tmp_path)


@pytest.fixture
def server() -> Iterator[Program]:
    """A server that may do what an ordinary user may."""
    with program(prefix=powerless()) as server:
        yield server


async def test_what_is_denied(server: Program, denied: Path) -> None:
    """What the system denies is -32600, and walks go around it."""
    async with connect(server.url, compression=None, proxy=None) as socket:
        talk = Dialogue(WebSocketWire(socket))
        assert await Replay(TRACES["fs/eacces"], talk, Places(denied)).run() == set(), talk.written()


async def test_handles_end_with_their_connection(tmp_path: Path) -> None:
    """A handle of a connection that was lost would leak, or be used by somebody who does not know its state."""
    (tmp_path / "f").write_text("hello")
    async with serving() as server:
        async with server.websocket() as wire:
            talk = Dialogue(wire)
            session = (await talk.initialize(resumeSessionId=None))["sessionId"]
            await talk.result("fs/open", handleId="k", path=str(tmp_path / "f"))
        async with server.websocket() as wire:
            talk = Dialogue(wire)
            trace = TRACES["sess/fs-handle-after-resume"]
            assert await Replay(trace, talk, Places(tmp_path, session)).run() == set(), talk.written()
