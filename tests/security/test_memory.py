"""Memory that clients can make the server hold: the largest of everything in every state, each within its bound.

Named by the letters of the attacks that were once possible. What is measured is the server's resident memory.
"""

from __future__ import annotations

import pytest

from tests.support.client import expect_error, session
from tests.support.program import program

pytestmark = pytest.mark.anyio

MIB = 1 << 20


async def test_h9_a_start_leaves_its_environment_behind() -> None:
    """Lost: memory, to what a start brought with it and nobody can ask for any more."""
    with program("--process-retention", "3600") as server:
        async with session(server.url) as client:
            await client.run("warm", "/bin/true")
            before = server.rss()
            env = {f"V{number}": "x" * 100_000 for number in range(15)}
            for number in range(60):
                proxy = {"proxy": [1.5] * 100_000}
                await client.run(f"p{number}", "/bin/true", env=env, networkProxy=proxy)
            assert server.rss() - before < 40 * MIB
            listed = (await client.call("process/list"))["processes"]
            assert len(listed) == 61 and listed[-1]["argv"] == ["/bin/true"]


async def test_h9_more_than_the_kernel_takes_is_refused_at_once() -> None:
    """Lost: memory, to starts that wait for a thread and cannot succeed."""
    with program() as server:
        async with session(server.url) as client:
            error = await expect_error(client.start("p", "/bin/true", "x" * (7 * MIB)))
            assert (error.code, error.data["reason"]) == (-32603, "size"), error
            assert error.data["bytes"] > 6 * MIB
