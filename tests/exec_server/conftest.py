"""One server program for all tests of a worker that do not need their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from exec_server import Environment
from tests.support.program import Program, program


@pytest.fixture(scope="session")
def server() -> Iterator[Program]:
    """A server program with default settings, shared: sessions keep tests apart."""
    with program() as running:
        yield running


@pytest.fixture(params=["local", "remote"])
async def environment(request: pytest.FixtureRequest, server: Program) -> AsyncIterator[Environment]:
    """This machine without a server of its own, and one elsewhere: whatever is above it must not know which."""
    async with Environment.create("local" if request.param == "local" else server.url) as environment:
        yield environment
