"""The Codex CLI with our MCP server among its own: a scripted model runs a command, answers a prompt on a terminal,
reads a screen, edits a file, and is interrupted.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from tests.exec_server.mcp.clients.checks import check
from tests.real_client.install import codex
from tests.real_client.model import function_call
from tests.real_client.play import Output, Play
from tests.support.program import alive, eventually, program

LIMIT_S = 120
SERVER = "machine"
_CONFIG = f"""\
[mcp_servers.{SERVER}]
command = "{{python}}"
args = ["-m", "exec_server", "mcp", "--workspace", "{{cwd}}"]
cwd = "{{cwd}}"
environment_id = "remote"
startup_timeout_sec = 30
"""


async def run(work: Path) -> list[str]:
    """Raises Wrong, Failure."""
    path = codex()
    with program() as server:
        play = Play(path, server.url, work)
        async with asyncio.timeout(LIMIT_S), play.running():
            await _use(play)
            await _cancel(play)
    return ["a command, a prompt, a screen, an edit and an interrupt"]


async def _use(play: Play) -> None:
    await play.start(more=_CONFIG)
    found = await _first(play, "exec_command", cmd="echo $((6 * 7)); pwd")
    check(found["output"] == f"42\n{play.cwd}\n" and found["exit_code"] == 0, f"a command: {found}")

    script = "printf 'Name? '; read name; echo Hello, $name"
    asked = await _called(play, "exec_command", cmd=script, tty=True, yield_time_ms=2000)
    check(asked["waiting_for_input"] and asked["last_line"] == "Name?", f"a prompt: {asked}")
    answered = await _called(play, "write_stdin", process_id=asked["process_id"], chars="Ada\n")
    check("Hello, Ada" in answered["output"] and answered["exit_code"] == 0, f"an answer: {answered}")

    draw = r"printf '\033[2J\033[3;5Hmenu'; read x"
    drawn = await _called(play, "exec_command", cmd=draw, tty=True, yield_time_ms=500)
    screen = await _called(play, "read_screen", process_id=drawn["process_id"])
    check(screen["rows"][2] == "    menu" and screen["cursor"]["row"] == 2, f"a screen: {screen}")

    play.cwd.joinpath("notes.txt").write_text("one\ntwo\n")
    edited = await _called(play, "edit_file", path="notes.txt", old_text="two", new_text="three")
    check("-two\n+three\n" in edited["diff"], f"an edit: {edited}")
    check(play.cwd.joinpath("notes.txt").read_text() == "one\nthree\n", "the file is edited")


async def _cancel(play: Play) -> None:
    """^C in the client: the command is gone, and what it has started."""
    pid = play.cwd / "pid"
    call = _call("exec_command", cmd=f"sleep 1000 & echo $! > {pid}; wait", yield_time_ms=30_000)
    play.model.answer_last([call | {"call_id": "cancelled"}])
    await eventually(lambda: pid.exists() and pid.read_text().strip(), "the command has begun")
    await play.interrupt()
    await eventually(lambda: not alive(int(pid.read_text())), "the interrupted command is gone")


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    return function_call(tool, "", f"mcp__{SERVER}", **arguments)


async def _first(play: Play, tool: str, **arguments: Any) -> dict[str, Any]:
    """The first call; the client begins its turn without waiting for a server that is slow to start."""
    while "unsupported call" in (said := await play.one(_call(tool, **arguments))).text:
        await asyncio.sleep(0.3)
    return _result(said)


async def _called(play: Play, tool: str, **arguments: Any) -> dict[str, Any]:
    return _result(await play.one(_call(tool, **arguments)))


def _result(said: Output) -> dict[str, Any]:
    """The structured result in what the client shows to its model."""
    found = re.search(r"\{.*\}", said.text, re.DOTALL)
    check(found is not None, f"no result in {said.text[:600]}")
    assert found is not None
    try:
        result: dict[str, Any] = json.loads(found[0])
    except ValueError:
        check(False, f"no JSON in {said.text[:600]}")
    return result
