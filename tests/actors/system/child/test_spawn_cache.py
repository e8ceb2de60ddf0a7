"""Starts without a thread: only where they cannot hold up the loop."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from actors.system.child.spawn_cache import QUICK_S, REMEMBERED, SPAWN_CACHE, WARM_S, SpawnCache, is_fixed, is_local
from actors.system.launch import LaunchRequest, launch_at_once
from protocol.errors import SpawnError
from tests.actors.system.child.support import output_of

KEY = ("true", "/", None)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_start_is_warm_for_a_while_after_a_quick_one_on_a_local_disk(tmp_path: Path) -> None:
    clock = Clock()
    warm = SpawnCache(clock)
    assert not warm.holds(KEY)
    warm.learn(KEY, 0.001, [b"/", os.fsencode(tmp_path)])
    assert warm.holds(KEY)
    clock.now += WARM_S
    assert not warm.holds(KEY)


@pytest.mark.parametrize(
    ("seconds", "paths"),
    [(QUICK_S * 2, [b"/"]), (0.001, [b"/", b"/sys"]), (0.001, [b"/", b"/no/such/place"])],
    ids=["slow", "not known to be local", "gone"],
)
def test_a_start_that_may_block_is_not_warm_any_more(seconds: float, paths: list[bytes]) -> None:
    """Lost: all other clients' output, while the loop waits for a disk."""
    warm = SpawnCache()
    warm.learn(KEY, 0.001, [b"/"])
    warm.learn(KEY, seconds, paths)
    assert not warm.holds(KEY)


def test_what_is_remembered_is_bounded() -> None:
    """Lost: memory, to a client that starts a program of another name each time."""
    warm = SpawnCache()
    keys = [(str(number), "/", None) for number in range(REMEMBERED + 1)]
    for key in keys:
        warm.learn(key, 0.001, [])
    assert [key for key in keys if not warm.holds(key)] == keys[:1]


def test_files_of_other_machines_and_programs_are_not_local() -> None:
    assert is_local(b"/proc")
    assert not is_local(b"/sys")  # harmless, but nothing that is not known to be local is taken for it


FIRST = """
import select
from actors.system.launch import LaunchRequest, launch_at_once, launch_soon
from actors.system.child.spawn_cache import SPAWN_CACHE
from actors.system.pool import START_POOL

request = LaunchRequest(argv=["true"], cwd="/tmp", env={"PATH": "/usr/bin:/bin"})
assert launch_at_once(request) is None
ticket = launch_soon(request)
select.select([ticket], [], [])
ticket.result().release()
START_POOL.finish()  # its thread has learned whatever it learned
SPAWN_CACHE.learn(request.key, 0.0, [])  # it may have been slow on a busy machine
"""


def test_a_warm_start_needs_no_thread() -> None:
    """Lost: half of the speed at which commands start."""
    lines = output_of(
        FIRST
        + """
child = launch_at_once(request)
select.select([child.pidfd], [], [])
print(child.reap().code)
child.release()
"""
    )
    assert lines == ["0"]


def test_a_warm_script_that_is_open_for_writing_is_not_waited_for_on_the_loop(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    request = LaunchRequest(argv=[str(script)], cwd="/", env={})
    SPAWN_CACHE.learn(request.key, 0.0, [])
    with script.open("a"):
        assert launch_at_once(request) is None
        assert not SPAWN_CACHE.holds(request.key)


def test_a_warm_start_that_fails_says_why_and_is_warm_no_longer(tmp_path: Path) -> None:
    script = tmp_path / "script"
    request = LaunchRequest(argv=[str(script)], cwd="/", env={})
    SPAWN_CACHE.learn(request.key, 0.0, [])
    with pytest.raises(SpawnError) as failure:
        launch_at_once(request)
    assert failure.value.data is not None and failure.value.data["kind"] == "spawnNotFound"
    assert not SPAWN_CACHE.holds(request.key)


def test_h7d_only_what_root_alone_can_write_is_started_on_the_loop(tmp_path: Path) -> None:
    """Lost: 45 s of everybody, to a command that takes a lease on a program of its own just before it is started."""
    assert is_fixed(os.path.realpath(b"/bin/sleep"))
    mine = tmp_path / "sleep"
    mine.write_bytes(Path("/bin/sleep").read_bytes())
    mine.chmod(0o755)
    assert not is_fixed(os.fsencode(mine)), "a folder above it is writable to others than root"
    started = FIRST.replace('["true"]', repr([str(mine), "0"])).partition("SPAWN_CACHE.learn")[0]
    assert output_of(f"{started}print(SPAWN_CACHE.holds(request.key))") == ["False"]
    script = shutil.which("ldd")
    assert script is not None and Path(script).read_bytes().startswith(b"#!")
    assert not is_fixed(os.fsencode(script)), "the interpreter is looked at as well"
    assert not is_fixed(b"/no/such/program")
