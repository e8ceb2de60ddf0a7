"""Minutes of mixed load; `make soak SECONDS=3600` makes it an hour."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security.target import Target, fill_scratch, target
from tests.soak.load import Load

SECONDS = float(os.environ.get("EXEC_SERVER_SOAK_SECONDS", "600"))
SHORT = 120.0
WARM_UP = 15.0
MEMORY_ROOM = 16 << 20
"""By how many bytes the server may be larger, at rest after the load, than at rest after a moment of the same."""
FIRST_USE_ROOM = 64 << 20
"""By how many bytes it may grow with the first of each: modules, pools, caches."""
Counters = Callable[[str, list[str]], None]


@pytest.mark.slow
@pytest.mark.timeout(SHORT * 4)
def test_two_minutes_of_mixed_load(tmp_path: Path, figures: Counters) -> None:
    """Lost: an output, a session or the server, to what others do at the same time."""
    soak(tmp_path, SHORT, figures)


@pytest.mark.soak
def test_long_mixed_load(tmp_path: Path, figures: Counters) -> None:
    """Lost: the server, after a while."""
    soak(tmp_path, SECONDS, figures)


def soak(folder: Path, seconds: float, figures: Counters) -> None:
    flags = ("--session-ttl", "5", "--process-retention", "60")
    with target(*flags, folders=(str(folder),)) as attacked:
        warm_up = min(WARM_UP, seconds / 4)
        lines = [f"warm-up, {warm_up:.0f} s: {loaded(attacked, folder, warm_up, 1, FIRST_USE_ROOM)[1]}"]
        attacked.settle()
        load, state = loaded(attacked, folder, seconds, 2, MEMORY_ROOM)
        assert not list(folder.iterdir()), "files are left"
        assert not attacked.complaints()
    lines += [f"{what:<14} {load.count[what]:>12,}" for what in sorted(load.count)]
    lines += [f"{'bad inputs':<14} {attacked.hits.total():>12,}", f"{seconds:.0f} s: {state}"]
    lines += [
        "nothing lost: every output had the digest it should have",
        "nothing left: no process, descriptor or file",
    ]
    lines.append("memory under load, MiB: " + " ".join(f"{each / 2**20:.1f}" for each in load.memory))
    figures("soak", lines)


def loaded(attacked: Target, folder: Path, seconds: float, seed: int, room: int) -> tuple[Load, str]:
    """Load, then rest: what was done, and what is left."""
    fill_scratch()
    load = Load(attacked, folder, seed)
    asyncio.run(load.run(seconds))
    return load, asyncio.run(attacked.recovers(room))
