"""Runs scenarios; the exit status is 0 if all of them pass, 1 if one fails, 2 if nothing could be run."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.real_client.failure import Failure, check
from tests.real_client.faults import FAULTS, Fault
from tests.real_client.install import NotInstalled, codex
from tests.real_client.play import Play
from tests.real_client.scenarios import SCENARIOS, Scenario
from tests.real_client.wire import problems, told
from tests.support.program import program

LIMIT_S = 60.0
"""The end of every wait in a scenario."""
FAULT_LIMIT_S = 12.0
"""The same where it is enough that a fault was noticed: a scenario takes 6 s at most."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One scenario to be played: to its end, or with a fault that it must notice."""

    scenario: Scenario
    fault: Fault | None = None

    @property
    def name(self) -> str:
        return self.scenario.name if self.fault is None else f"{self.scenario.name}, {self.fault.name}"


async def run(task: Task, options: argparse.Namespace, server_url: str, work: Path) -> bool:
    """Play one scenario and print how it went, on one line; whether it went as it must."""
    play = Play(options.codex, server_url, work, task.fault)
    limit = options.slow * (LIMIT_S if task.fault is None else FAULT_LIMIT_S)
    began = time.monotonic()
    why = ""
    try:
        async with asyncio.timeout(limit):
            await played(task.scenario, play)
    except TimeoutError:
        why = f"not over in {limit:.0f} s, the last of it: {told(play.proxy.record.frames)[-6:]}"
    except (Failure, AssertionError) as failure:
        why = str(failure)
    except Exception as error:  # a fault of a scenario must not hide what the others find
        why = "".join(traceback.format_exception(error)) if options.verbose else repr(error)
    right = bool(why) == (task.fault is not None)
    verdict = f"{'PASS' if right else 'FAIL'} {task.name} ({time.monotonic() - began:.1f} s)"
    print(": ".join(filter(None, (verdict, " | ".join(why.splitlines())[: 160 if right else 900]))), flush=True)
    if options.verbose:
        print(*told(play.proxy.record.frames), sep="\n", flush=True)
    if options.frames is not None:
        _write_frames(play, options.frames / f"{task.name}.jsonl")
    return right


async def played(scenario: Scenario, play: Play) -> None:
    """Raises Failure where the scenario, or the wire, is not as it must be."""
    async with play.running():
        await scenario.script(play)
        await play.finish()
        record = play.proxy.record
        if record.connections == 1 and play.proxy.alter is None:
            found = problems(record.frames)
            check(not found, "; ".join(found[:4]))


def _write_frames(play: Play, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(dataclasses.asdict(f)) + "\n" for f in play.proxy.record.frames))


async def run_all(tasks: list[Task], options: argparse.Namespace, server_url: str, work: Path) -> bool:
    """Play scenarios, so many at a time as `--jobs` says."""
    began = time.monotonic()
    room = asyncio.Semaphore(options.jobs)

    async def one(n: int, task: Task) -> bool:
        async with room:
            return await run(task, options, server_url, work / str(n))

    passed = await asyncio.gather(*itertools.starmap(one, enumerate(tasks)))
    print(f"{sum(passed)} of {len(passed)} passed in {time.monotonic() - began:.1f} s")
    return all(passed)


@contextlib.contextmanager
def server(options: argparse.Namespace) -> Iterator[str]:
    """The URL of the server under test; ours is started unless another one was named."""
    if options.server_url is not None:
        yield options.server_url
        return
    with program(env=os.environ | {"SIDE": "server"}) as ours:
        yield ours.url


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.real_client", description=__doc__)
    parser.add_argument("--codex", type=Path, help="the client's program (default: fetched with npm into a cache)")
    parser.add_argument("--server-url", help="a running server (default: ours, on a free port)")
    parser.add_argument("--scenario", action="append", default=[], choices=SCENARIOS, help="only this one; repeatable")
    parser.add_argument("--all", action="store_true", help="also those that need a sandbox")
    parser.add_argument("--upstream", action="store_true", help="without those that upstream's own server fails")
    parser.add_argument("--faults", action="store_true", help="break the server; each fault must be noticed")
    parser.add_argument("--list", action="store_true", help="print the scenarios and what they are for")
    parser.add_argument("--jobs", type=int, default=3, help="how many run at a time (default: 3)")
    parser.add_argument("--slow", type=float, default=1.0, help="multiplies the time limit of each")
    parser.add_argument("--frames", type=Path, help="a folder for what was recorded, a file each")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what went over the wire")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Task]:
    scenarios = [
        scenario
        for scenario in SCENARIOS.values()
        if (options.all or not scenario.sandbox) and not (options.upstream and scenario.beyond_upstream)
    ]
    if options.scenario:
        scenarios = [SCENARIOS[name] for name in options.scenario]
    if not options.faults:
        return list(map(Task, scenarios))
    return [Task(SCENARIOS[fault.scenario], fault) for fault in FAULTS if SCENARIOS[fault.scenario] in scenarios]


def main() -> int:
    options = parsed()
    if options.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:20} {scenario.purpose}")
        return 0
    try:
        options.codex = (options.codex or codex()).absolute()
    except NotInstalled as error:
        print(f"the real client cannot be run: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="real-client-") as work, server(options) as url:
        passed = asyncio.run(run_all(chosen(options), options, url, Path(work)))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
