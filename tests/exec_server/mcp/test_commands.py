"""Tools for commands, as a client of the official package calls them."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from exec_server.mcp.call import Call
from exec_server.mcp.policy import Policy
from exec_server.mcp.session import McpSession
from exec_server.mcp.tools import TOOLS, carry_out
from tests.exec_server.mcp.served import LOCAL, asking, call, refused, running, served, text_of, typed
from tests.support.program import alive, eventually

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_command_and_its_end(mode: str) -> None:
    """Lost: everything, with clients of one revision or the other."""
    async with served(mode=mode) as client:
        result = await client.call_tool("exec_command", {"cmd": "echo out; echo err >&2; exit 3"})
        assert result.structured_content is not None and not result.is_error
        assert result.structured_content["exit_code"] == 3 and result.structured_content["process_id"] is None
        assert sorted(result.structured_content["output"].split()) == ["err", "out"]
        assert text_of(result).startswith("Exit code 3")


async def test_both_ends_of_long_output_are_shown() -> None:
    """Lost: the error at the end of a build."""
    async with served() as client:
        found = await call(client, "exec_command", cmd="seq 100000; echo the end", max_output_tokens=50)
        assert found["output"].startswith("1\n2\n") and found["output"].endswith("the end\n")
        assert found["omitted_bytes"] > 500_000 and str(found["omitted_bytes"]) in found["output"]


async def test_a_prompt_is_told_and_answered() -> None:
    """Lost: the model waits for ever for a command that waits for it."""
    async with served() as client:
        script = "printf 'Password: '; read -r p; echo got $p"
        found = await asking(client, script)
        assert found["last_line"] == "Password:"
        assert "write_stdin" in found["notice"]
        listed = (await call(client, "list_processes"))["processes"]
        assert [(each["process_id"], each["waiting_for_input"]) for each in listed] == [(found["process_id"], True)]
        done = await call(client, "write_stdin", process_id=found["process_id"], chars="secret\n")
        assert "got secret" in done["output"] and done["exit_code"] == 0
        assert (await call(client, "list_processes"))["processes"] == []


async def test_without_a_terminal_nothing_is_asked() -> None:
    """`sudo` and the like must fail at once. Lost: a command that waits for a password that nobody can type."""
    async with served() as client:
        found = await call(client, "exec_command", cmd="read -r answer </dev/tty && echo $answer")
        assert found["exit_code"] not in (0, None)
        found = await call(client, "exec_command", cmd="cat; echo end")
        assert found["output"] == "end\n"


async def test_an_editor_that_waits_is_driven_by_its_screen(tmp_path: Path) -> None:
    """Lost: the model hangs in an editor that git has started."""
    file = tmp_path / "note.txt"
    file.write_text("first line\n")
    async with served() as client:
        cmd = f"TERM=xterm vim -u NONE -N {file}"
        found = await asking(client, cmd)
        screen = await call(client, "read_screen", process_id=found["process_id"])
        assert screen["rows"][0] == "first line" and screen["cursor"] == {"row": 0, "col": 0, "visible": True}
        found = await call(
            client, "write_stdin", process_id=found["process_id"], chars="osecond\x1b:wq\r", yield_time_ms=20_000
        )
        assert found["exit_code"] == 0
        assert file.read_text() == "first line\nsecond\n"


async def test_a_command_that_goes_on_is_ended() -> None:
    """Lost: processes of which the model believes that they are gone."""
    async with served() as client:
        process_id, output = await running(client, "sleep 1000 & echo $!; wait", "\n")
        child = int(output)
        ended = await call(client, "terminate_process", process_id=process_id)
        assert ended["exit_code"] == 137
        await eventually(lambda: not alive(child), "the descendant is gone")
        assert "is finished" in await refused(client, "terminate_process", process_id=process_id)


async def test_a_cancelled_call_interrupts_its_command(tmp_path: Path) -> None:
    """Lost: the command goes on though the user has pressed Escape; or it has no chance to tidy up."""
    pid, tidy = tmp_path / "pid", tmp_path / "tidy"
    script = f"trap 'echo tidy > {tidy}; exit 1' INT; sleep 1000 & echo $! > {pid}; while :; do sleep 0.1; done"
    async with served() as client:
        task = asyncio.create_task(client.call_tool("exec_command", {"cmd": script, "yield_time_ms": 30_000}))
        await eventually(lambda: pid.exists() and pid.read_text().strip(), "it has begun")
        task.cancel()
        await asyncio.wait([task])
        await eventually(tidy.exists, "it was interrupted")
        await eventually(lambda: not alive(int(pid.read_text())), "what it has left is gone")
        async with asyncio.timeout(20):
            while (await call(client, "list_processes"))["processes"]:
                await asyncio.sleep(0.05)


async def test_a_cancelled_call_kills_what_does_not_hear(tmp_path: Path) -> None:
    """Lost: a command that ignores ^C runs on, and nobody knows of it."""
    pid = tmp_path / "pid"
    script = f"trap '' INT; echo $$ > {pid}; while :; do sleep 0.1; done"
    async with served() as client:
        task = asyncio.create_task(client.call_tool("exec_command", {"cmd": script, "yield_time_ms": 30_000}))
        await eventually(lambda: pid.exists() and pid.read_text().strip(), "it has begun")
        task.cancel()
        await asyncio.wait([task])
        await eventually(lambda: not alive(int(pid.read_text())), "it is killed")


async def test_a_cancelled_look_leaves_the_command_and_its_output() -> None:
    """Lost: a server that the model has started, because the user was tired of waiting."""
    async with served() as client:
        found = await call(client, "exec_command", cmd="read x; echo read $x", tty=True, yield_time_ms=250)
        look = asyncio.create_task(client.call_tool("write_stdin", {"process_id": found["process_id"]}))
        await asyncio.sleep(0.1)
        look.cancel()
        await asyncio.wait([look])
        done = await call(client, "write_stdin", process_id=found["process_id"], chars="on\n")
        assert "read on" in done["output"]


async def test_progress_tells_the_newest_line() -> None:
    """Lost: a person sees nothing of a build until it is over."""
    told: list[tuple[float, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with served() as client:
        go = "echo compiling; read x; echo linking; read x"
        task = asyncio.create_task(client.call_tool("exec_command", {"cmd": go, "tty": True}, progress_callback=tell))
        await eventually(lambda: any(message == "compiling" for _, message in told), "the first line")
        (process,) = (await call(client, "list_processes"))["processes"]
        await call(client, "write_stdin", process_id=process["process_id"], chars="\n", yield_time_ms=250)
        await eventually(lambda: any(message == "linking" for _, message in told), "the next line")
        await call(client, "terminate_process", process_id=process["process_id"])
        await task
        assert [at for at, _ in told] == sorted({at for at, _ in told}), "progress only ever grows"


async def test_output_in_no_encoding() -> None:
    """Lost: the connection, to bytes that JSON cannot have."""
    async with served() as client:
        found = await call(client, "exec_command", cmd=r"printf 'a\377\376\0b\n'")
        assert found["output"] == "a\ufffd\ufffd\0b\n" and found["total_bytes"] == 6


async def test_fifty_side_by_side() -> None:
    """Lost: answers of one call in another."""
    async with served() as client:
        found = await asyncio.gather(*(call(client, "exec_command", cmd=f"echo {n}") for n in range(50)))
        assert [each["output"] for each in found] == [f"{n}\n" for n in range(50)]


@pytest.mark.parametrize(
    "tool, arguments, said",
    [
        ("exec_command", {}, "missing required field `cmd`"),
        ("exec_command", {"cmd": 5}, "Expected `str`, got `int` - at `$.cmd`"),
        ("exec_command", {"cmd": "true", "tty": "yes"}, "Expected `bool`, got `str` - at `$.tty`"),
        ("exec_command", {"cmd": "true", "timeout": 5}, "has no argument 'timeout'; it has cmd, workdir"),
        ("exec_command", {"cmd": "true", "max_output_tokens": -1}, "max_output_tokens is a size, not -1"),
        ("exec_command", {"cmd": "true", "workdir": "/no/such"}, "Does workdir exist?"),
        ("exec_command", {"cmd": "a\0b"}, "contains NUL"),
        ("exec_command", {"cmd": "x" * 200_000}, "Write a script with write_file"),
        ("write_stdin", {"process_id": 999}, "list_processes shows"),
        ("write_stdin", {"process_id": 999, "chars": "x" * (10 << 20)}, "more than 1048576"),
        ("write_stdin", {"process_id": 9, "chars": []}, "Expected `str`, got `array`"),
        ("read_screen", {"process_id": 999}, "unknown process id 999"),
        ("terminate_process", {"process_id": "1000"}, "Expected `int`, got `str`"),
        ("list_processes", {"all": True}, "has no argument 'all'"),
    ],
)
async def test_bad_input_says_what_is_wrong(tool: str, arguments: dict[str, Any], said: str) -> None:
    """Lost: the model's next attempt; a protocol error tells it nothing."""
    async with served() as client:
        assert said in await refused(client, tool, **arguments)
        assert (await call(client, "exec_command", cmd="echo on"))["output"] == "on\n"


async def test_a_yield_of_a_day_is_held() -> None:
    async with served() as client:
        found = await call(client, "exec_command", cmd="true", yield_time_ms=86_400_000)
        assert "was held within 250 to 30000" in found["notice"]


async def test_unknown_tools_are_errors_of_the_protocol() -> None:
    async with served() as client:
        with pytest.raises(MCPError, match="Unknown tool: rm"):
            await client.call_tool("rm", {})


async def test_input_for_a_command_without_a_terminal() -> None:
    async with served() as client:
        found = await call(client, "exec_command", cmd="sleep 60", yield_time_ms=250)
        assert "tty=True" in await refused(client, "write_stdin", process_id=found["process_id"], chars="x")
        assert "no terminal" in await refused(client, "read_screen", process_id=found["process_id"])


@pytest.mark.parametrize("mode, written", [("read-only", False), ("workspace-write", True)])
async def test_a_sandbox_holds_commands_and_files(tmp_path: Path, mode: Any, written: bool) -> None:
    """Lost: whatever the sandbox was to keep."""
    outside = Path.home() / f".exec-server-test-{os.getpid()}"
    async with served(Policy(str(tmp_path), None, mode)) as client:
        result = await client.call_tool("exec_command", {"cmd": "echo x > inside && cat inside"})
        assert tmp_path.joinpath("inside").exists() == written
        assert result.is_error != written
        if not written:
            assert "The sandbox is read-only" in text_of(result)
        result = await client.call_tool("exec_command", {"cmd": f"echo x > {outside}"})
        assert not outside.exists() and result.structured_content is not None
        assert result.structured_content["exit_code"] != 0
        result = await client.call_tool("write_file", {"path": "file", "content": "x"})
        assert tmp_path.joinpath("file").exists() == written and result.is_error != written
        assert (await client.call_tool("write_file", {"path": str(outside), "content": "x"})).is_error
        assert not outside.exists()
        assert (await call(client, "read_file", path="/etc/hostname"))["size"] > 0


async def test_every_tool_is_listed_with_its_schemas() -> None:
    async with served() as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == set(TOOLS) and len(tools) == 11
        assert all(tool.output_schema and tool.annotations and tool.description and tool.title for tool in tools)


async def test_signals_reach_a_terminal() -> None:
    async with served() as client:
        process_id, _ = await running(client, "echo up; sleep 1000", "up", tty=True)
        done = await call(client, "write_stdin", process_id=process_id, chars="\x03", yield_time_ms=20_000)
        assert done["exit_code"] == 128 + signal.SIGINT


async def test_output_since_the_last_look_comes_once() -> None:
    async with served() as client:
        process_id, _ = await running(client, "stty -echo; echo ready; cat", "ready", tty=True)
        assert await typed(client, process_id, "one\n", "one") == "one\r\n"
        assert await typed(client, process_id, "two\n", "two") == "two\r\n"


async def test_what_is_over_is_forgotten() -> None:
    """Lost: memory, in a session of some days."""
    session = McpSession(LOCAL, Policy())
    try:
        for number in range(20):
            await carry_out(session, TOOLS["exec_command"], {"cmd": f"echo {number}"}, Call())
            await carry_out(session, TOOLS["exec_command"], {"cmd": "true", "workdir": "/no/such"}, Call())
        assert len(session.activities) <= 2
    finally:
        await session.close()
