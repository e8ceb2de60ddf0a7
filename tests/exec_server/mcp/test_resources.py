"""Resources: output and screens of commands, files, and news of them."""

from __future__ import annotations

import asyncio
import base64
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from exec_server.mcp.policy import Policy
from tests.exec_server.mcp.served import call, program, running, served, typed
from tests.support.program import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _given_up_later() -> Iterator[None]:
    """Subscriptions as clients before revision 2026-07-28 have them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        yield


async def test_output_is_read_from_a_cursor_on() -> None:
    """Lost: a person who looks on sees nothing, or all of it again and again."""
    async with served() as client:
        process_id, _ = await running(client, "echo one; read x; echo two; read x", "one\r\n", tty=True)
        uri = f"process://{process_id}/output"
        assert {str(each.uri) for each in (await client.list_resources()).resources} == {
            uri,
            uri.replace("output", "screen"),
        }
        (first,) = (await client.read_resource(uri)).contents
        assert first.text == "one\r\n" and first.meta is not None
        await typed(client, process_id, "\n", "two\r\n")
        (second,) = (await client.read_resource(f"{uri}?after={first.meta['exec-server/cursor']}")).contents
        assert second.text == "\r\ntwo\r\n" and second.meta is not None
        (none,) = (await client.read_resource(f"{uri}?after={second.meta['exec-server/cursor']}")).contents
        assert none.text == ""
        (whole,) = (await client.read_resource(uri)).contents
        assert whole.text == "one\r\n\r\ntwo\r\n", "what a tool has shown is still there"
        (screen,) = (await client.read_resource(uri.replace("output", "screen"))).contents
        assert "0 one" in screen.text and "Cursor at row 3" in screen.text


async def test_subscribed_clients_are_told_of_news() -> None:
    """Lost: a view of a build that has to ask every second."""
    told: list[str] = []

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            told.append(str(message.params.uri))

    async with served(message_handler=hear) as client:
        found = await call(client, "exec_command", cmd="cat", tty=True, yield_time_ms=250)
        uri = f"process://{found['process_id']}/output"
        await client.subscribe_resource(uri)
        await call(client, "write_stdin", process_id=found["process_id"], chars="x\n", yield_time_ms=250)
        await eventually(lambda: told, "it is told of output")
        assert set(told) == {uri}
        await client.unsubscribe_resource(uri)
        told.clear()
        await call(client, "write_stdin", process_id=found["process_id"], chars="y\n", yield_time_ms=1000)
        assert not told


async def test_clients_of_today_listen_for_news() -> None:
    from mcp import Client as McpClient

    async with McpClient(program()) as client:
        found = await call(client, "exec_command", cmd="cat", tty=True, yield_time_ms=250)
        uri = f"process://{found['process_id']}/output"
        async with client.listen(resource_subscriptions=[uri]) as news:
            await call(client, "write_stdin", process_id=found["process_id"], chars="x\n", yield_time_ms=250)
            async with asyncio.timeout(20):
                event = await anext(aiter(news))
        assert event.uri == uri


async def test_files_below_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.joinpath("a b.txt").write_text("text")
    root.joinpath("data").write_bytes(b"\xff\0\xff")
    tmp_path.joinpath("secret").write_text("secret")
    root.joinpath("link").symlink_to(tmp_path / "secret")
    async with served(Policy(None, str(root))) as client:
        (found,) = (await client.read_resource(f"file://{root}/a%20b.txt")).contents
        assert found.text == "text"
        (found,) = (await client.read_resource(f"file://{root}/data")).contents
        assert base64.b64decode(found.blob) == b"\xff\0\xff"
        for path in ("link", "../secret", "absent", ""):
            with pytest.raises(MCPError):
                await client.read_resource(f"file://{root}/{path}")


@pytest.mark.parametrize(
    "uri",
    [
        "process://1/output",
        "process://x/output",
        "process://1/other",
        "http://example.com/",
        "process://1/output?after=x",
    ],
)
async def test_what_is_no_resource(uri: str) -> None:
    async with served() as client:
        with pytest.raises(MCPError, match=r"process|cursor"):
            await client.read_resource(uri)


async def test_what_nobody_tells_of() -> None:
    async with served() as client:
        with pytest.raises(MCPError, match="nobody tells of file:///x"):
            await client.subscribe_resource("file:///x")


async def test_templates_are_listed() -> None:
    async with served() as client:
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "process://{process_id}/output{?after}",
            "process://{process_id}/screen",
            "file://{+path}",
        ]


async def test_messages_below_the_wanted_level_are_not_sent() -> None:
    async with served() as client:
        await client.set_logging_level("error")
        assert (await call(client, "exec_command", cmd="true"))["exit_code"] == 0
