"""Large files beside other work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.exec_server.wire.file_calls import on
from tests.support.client import session
from tests.support.program import Program

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
BLOCK = 1 << 20


async def test_a_large_file_does_not_hold_up_a_keystroke(server: Program, tmp_path: Path) -> None:
    """Whoever types while somebody else fetches 500 MB would wait for the last of it: each key is echoed meanwhile."""
    with (tmp_path / "f").open("wb") as file:
        file.truncate(500 * BLOCK)
    blocks = 0

    async def fetch() -> None:
        nonlocal blocks
        async with session(server.url, "msgpack") as reader:
            await on(reader, "open", tmp_path / "f", handleId="h")
            for offset in range(0, 500 * BLOCK, BLOCK):
                await reader.call("fs/readBlock", handleId="h", offset=offset, len=BLOCK)
                blocks += 1

    async with session(server.url) as client:
        cat = await client.start("keys", "/bin/cat", tty=True)
        fetching = asyncio.create_task(fetch())
        seen: list[int] = []
        for number in range(20):
            await cat.write(b"%d\n" % number)
            await cat.shows(b"%d\r\n" % number)
            seen.append(blocks)
        assert not fetching.done(), "20 keystrokes took longer than 500 MB"
        assert seen[-1] < 500
        await fetching
        assert blocks == 500
