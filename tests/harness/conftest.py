"""What every test of the agent's side may use."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from exec_server import Environment
from harness import EnvironmentReader, LocalReader, Reader


@pytest.fixture(params=["local", "environment"])
async def reader(request: pytest.FixtureRequest) -> AsyncIterator[Reader]:
    """This machine's disk, directly and behind a server."""
    if request.param == "local":
        yield LocalReader()
    else:
        async with Environment.create("local") as environment:
            yield EnvironmentReader(environment)
