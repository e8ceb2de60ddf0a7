"""The wall clock jumps: somebody sets it, or a machine wakes up. Only what is shown to people may notice.

The server runs with a `time.time` that can be moved while it runs. What C code reads by itself is not moved: the
dates of files and of HTTP answers, and the time at which a signed token is judged, which has to be the wall clock's.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.client import PATIENCE_S, Client, session
from tests.support.program import ROOT, launched

pytestmark = pytest.mark.anyio

YEARS = 10 * 365 * 86_400
SERVER = """
import os, sys, time
real, path = time.time, sys.argv[1]
time.time = lambda: real() + os.stat(path).st_size * float(os.environ["STEP"])
from exec_server.server import program
sys.exit(program.serve(["--listen", "ws://127.0.0.1:0", "--grace", "0", "--session-ttl=600", "--ping-interval=1"]))
"""
SHOWN_TO_PEOPLE = {
    "actors/session/audit.py",  # when something happened
    "actors/engine/asyncio_base.py",  # a version of itself, for Thespian
    "actors/process/actor.py",  # startedAtMs
    "actors/process/recording.py",  # the head of a recording
    "exec_server/cli/ps.py",  # how long ago something started
}


async def started_at(client: Client, process_id: str) -> float:
    processes = (await client.call("process/list"))["processes"]
    return float(next(each["startedAtMs"] for each in processes if each["processId"] == process_id)) / 1000


@pytest.mark.parametrize("years", [YEARS, -YEARS], ids=["forward", "back"])
async def test_a_jump_of_the_wall_clock_ends_nothing_and_holds_up_nothing(tmp_path: Path, years: int) -> None:
    """Lost: every session and process at once, or every timeout, when the clock is set."""
    jumps = tmp_path / "jumps"  # as many as it has bytes
    jumps.touch()
    argv = [sys.executable, "-c", SERVER, str(jumps)]
    environ = {"PATH": "/usr/bin:/bin", "STEP": str(years)}
    with launched(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        async with session(url) as client:
            long = await client.start("long", "/bin/cat", pipeStdin=True, timeoutMs=600_000, idleTimeoutMs=600_000)
            waiting = await client.send("process/wait", processId="long", waitMs=600_000)
            session_id = client.session_id
            jumps.write_bytes(b"x")
            await client.start("later", "/bin/cat", pipeStdin=True)
            assert abs(await started_at(client, "later") - time.time() - years) < 600, "the clock has jumped"
            short = await client.start("short", "/bin/cat", pipeStdin=True, timeoutMs=100)
            assert (await short.closed()).reason == "timeout"
            assert not (await client.call("process/wait", processId="long", waitMs=50))["exited"]
            await client.abort()
            waiting.cancel()
        async with session(url) as other:
            told = await other.call("process/wait", processId="long", sessionId=session_id, waitMs=50)
            assert not told["exited"] and long.exit is None, "its session waits for its client"
        server.terminate()
        assert await asyncio.to_thread(server.wait, PATIENCE_S) == 0


def test_the_wall_clock_is_read_for_people_alone() -> None:
    """Lost: the promise above, with the next deadline that somebody reckons by the wrong clock."""
    found = set()
    for room in ("protocol", "actors", "transport", "exec_server"):
        for path in (ROOT / room).rglob("*.py"):
            if re.search(r"\btime\.time(_ns)?\(|from time import .*\btime\b|datetime\.(utc)?now\(", path.read_text()):
                found.add(str(path.relative_to(ROOT)))
    assert found <= SHOWN_TO_PEOPLE
