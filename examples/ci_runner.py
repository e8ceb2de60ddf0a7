"""CI runner: the steps of a job one after the other on any machine, each with a time limit. Of one that fails the end
of its log is shown, and the rest is left out.

    python -m examples.ci_runner [URL]

URL is that of a server, or `local`, the default, for this machine.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections import deque
from dataclasses import dataclass

import exec_server

TAIL_LINES = 5


@dataclass(frozen=True)
class Step:
    """One command line. `timeout` in seconds; the server ends the step with all its descendants after that."""

    name: str
    line: str
    timeout: float = 60.0


JOB = (
    Step("checkout", "mkdir source; echo 'print(6 * 7)' > source/answer.py"),
    Step("test", "python3 source/answer.py | grep 42"),
    Step("lint", "for n in $(seq 30); do echo source/answer.py:$n: bad style >&2; done; exit 1"),
    Step("deploy", "echo never reached"),
)


async def run_step(environment: exec_server.Environment, folder: str, step: Step) -> bool:
    """Run a step, and say how it went; whether it succeeded."""
    process = await environment.processes.start(
        ["sh", "-c", f"exec 2>&1; {step.line}"], cwd=folder, timeout=step.timeout
    )
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    async for line in process.stdout.lines():
        tail.append(line)
    status = await process.wait()
    if status == 0:
        print(f"ok    {step.name}")
        return True
    how = f"timed out after {step.timeout:g} s" if status.reason == "timeout" else f"exit status {int(status)}"
    print(f"FAIL  {step.name}: {how}; its last lines:")
    for line in tail:
        print(f"      | {line}")
    return False


async def run_job(url: str, job: tuple[Step, ...] = JOB) -> int:
    """Run the steps in a new folder that is removed at the end; the number of steps that did not succeed."""
    async with exec_server.Environment.create(url) as environment:
        made = await environment.processes.run(["mktemp", "-d"], check=True)
        folder = made.stdout.decode().strip()
        try:
            for number, step in enumerate(job):
                if not await run_step(environment, folder, step):
                    for skipped in job[number + 1 :]:
                        print(f"skip  {skipped.name}")
                    return len(job) - number
        finally:
            await environment.files.remove(folder, recursive=True)
    return 0


if __name__ == "__main__":
    failed = asyncio.run(run_job(sys.argv[1] if len(sys.argv) > 1 else "local"))
    print(f"{failed} of {len(JOB)} steps did not succeed: {shlex.join(sys.argv[1:]) or 'local'}")
    sys.exit(failed > 0)
