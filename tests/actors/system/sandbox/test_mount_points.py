"""Directories that sandboxes share as mount points."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from actors.system.sandbox import mount_points
from actors.system.sandbox.mount_points import MountPoints


def test_the_last_user_takes_it_away(tmp_path: Path) -> None:
    """Lost: a `.git` that nobody has made stays in a user's workspace."""
    points, path = MountPoints(), tmp_path / "point"
    assert points.acquire(str(path)) and points.acquire(str(path))
    points.release([str(path)])
    assert path.is_dir()
    points.release([str(path)])
    assert not path.exists()
    assert points.acquire(str(path))
    points.release([str(path)])


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    points = MountPoints()
    assert points.acquire(str(tmp_path)) is None
    assert tmp_path.is_dir()
    with pytest.raises(FileNotFoundError):
        points.acquire(str(tmp_path / "none" / "below"))
    assert not points._points


def test_a_disk_that_hangs_holds_up_nobody_elses_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: every start in a sandbox, to the network disk of one."""
    hangs, goes_on = threading.Event(), threading.Event()
    really_mkdir = os.mkdir

    def mkdir(path: str, mode: int = 0o777) -> None:
        if path.endswith("lost"):
            hangs.set()
            assert goes_on.wait(20)
        really_mkdir(path, mode)

    monkeypatch.setattr(mount_points.os, "mkdir", mkdir)
    points, lost = MountPoints(), str(tmp_path / "lost")
    threads = [threading.Thread(target=points.acquire, args=(lost,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert hangs.wait(20)
    other = str(tmp_path / "other")
    assert points.acquire(other)
    points.release([other])
    goes_on.set()
    for thread in threads:
        thread.join()
    points.release([lost, lost])
    assert os.listdir(tmp_path) == []
