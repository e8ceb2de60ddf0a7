from collections.abc import AsyncIterator, Iterator

import pytest

from tests.transport.support import Served, opened
from transport.listen import WebSocketUrl, serve_websocket


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """Every carrier has to work on both loops: they differ in how they buffer, pause and end."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture(autouse=True)
def close_raw_clients() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


@pytest.fixture
async def served(anyio_backend: object) -> AsyncIterator[Served]:
    """A WebSocket listener on a free port; its connections are given out by `accepted()`."""
    served = Served()
    served.listener = serve_websocket(WebSocketUrl("127.0.0.1", 0), served.add, admission=served.admission)
    yield served
    served.listener.close()
    await served.listener.wait_closed(0)
