"""Bodies without an end and clients that do not read: what is kept for them is bounded, and others notice nothing."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.client import connected, session
from tests.support.program import Program, program
from tests.support.web import Web, web_server

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MB = 1 << 20


async def stalled(web: Web, server: Program) -> int:
    """Wait until the web server can send no more; the most memory that the server had by then."""
    peak, sent, since = 0, -1, 0
    async with asyncio.timeout(40):
        while since < 8:
            since = since + 1 if sent == web.sent else 0
            sent = web.sent
            peak = max(peak, server.rss())
            await asyncio.sleep(0.1)  # no event says that nothing comes
    return peak


@pytest.mark.parametrize("streams", [1, 40])
async def test_endless_bodies_and_a_client_that_does_not_read(streams: int) -> None:
    """Memory stays flat, another session's keystrokes get through, and all goes on when the client reads again."""
    with program() as server:
        async with web_server() as web, session(server.url) as client, session(server.url) as other:
            cat = await other.start("cat", "/bin/cat", pipeStdin=True)
            await client.request(web.url("/hello"))  # the library is there
            before = server.rss()
            for n in range(streams):
                await client.send(
                    "http/request", method="GET", url=web.url("/endless"), requestId=f"s{n}", streamResponse=True
                )
            await client.until(lambda: len(client.bodies) == streams)
            client.stop_reading()
            assert await stalled(web, server) - before < (16 + streams) * MB
            await cat.write(b"key")
            await cat.shows(b"key")
            heard = {name: len(body.pieces) for name, body in client.bodies.items()}
            client.read_on()
            await client.until(lambda: all(len(body.pieces) > heard[name] + 2 for name, body in client.bodies.items()))


async def test_whole_bodies_of_a_client_that_does_not_read() -> None:
    """16 bodies of 60 MB are a gigabyte; what is kept is the limit and one body, here and for the client."""
    with program() as server:
        async with web_server() as web, connected(server.url) as client:
            await client.initialize(maxMessageBytes=256 * MB)
            await client.request(web.url("/hello"))
            before = server.rss()
            url = web.url(f"/big?n={60 * MB}")
            answers = [await client.send("http/request", method="GET", url=url, requestId="r") for _ in range(16)]
            client.stop_reading()
            assert await stalled(web, server) - before < 400 * MB
            client.read_on()
            for answer in answers:
                assert len((await asyncio.wait_for(answer, 60))["result"]["bodyBase64"]) == 80 * MB
