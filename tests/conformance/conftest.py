"""One client, on every wire: a scenario is written once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.conformance.dialogue import Dialogue
from tests.conformance.encodings import ENCODINGS, JSON, Encoding
from tests.conformance.wires import InProcess, ProgramMapWire, ProgramWire, program, serving


@pytest.fixture(params=ENCODINGS)
def encoding(request: pytest.FixtureRequest) -> Encoding:
    """How messages become bytes."""
    return ENCODINGS[request.param]


@pytest.fixture
async def server(anyio_backend: object, encoding: Encoding) -> AsyncIterator[InProcess]:
    """A server with the defaults of the command line."""
    async with serving(encoding) as server:
        yield server


@pytest.fixture(params=["websocket", "stdio"])
def wire_name(request: pytest.FixtureRequest) -> str:
    """The wire of `talk`: over a socket, or on two pipes."""
    name: str = request.param
    return name


@pytest.fixture
async def talk(server: InProcess, wire_name: str) -> AsyncIterator[Dialogue]:
    """A client that has not said anything yet."""
    async with server.websocket() if wire_name == "websocket" else server.stdio() as wire:
        yield Dialogue(wire)


@pytest.fixture(params=["websocket", "stdio", "program"])
async def any_talk(request: pytest.FixtureRequest, server: InProcess, encoding: Encoding) -> AsyncIterator[Dialogue]:
    """As `talk`, and to the program on its stdin and stdout."""
    if request.param == "program":
        async with program("--listen", "stdio://", "--encoding", encoding.name) as process:
            yield Dialogue(ProgramWire(process) if encoding is JSON else ProgramMapWire(process, encoding))
    else:
        async with server.websocket() if request.param == "websocket" else server.stdio() as wire:
            yield Dialogue(wire)
