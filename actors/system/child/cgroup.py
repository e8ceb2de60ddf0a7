"""A control group of the server's own, where cgroup v2 is delegated to it (cgroups(7)).

The server moves into a new leaf below the group it was started in; all it starts is in there with it,
whatever it does with sessions and forks. To end them the server steps out and writes `cgroup.kill`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_EMPTY_WITHIN_S = 1.0


class OwnCgroup:
    """The leaf; `parent` is where the server was before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parent = path.parent

    def kill_and_leave(self) -> bool:
        """End everything in the group but this process, which is moved back, and remove the group.

        For the end of the server: may take up to a second, usually 10 ms. False where something survived or
        the group could not be left (the parent got controllers of its own meanwhile).
        """
        try:
            (self.parent / "cgroup.procs").write_text(str(os.getpid()))
            (self.path / "cgroup.kill").write_text("1")
        except OSError:
            return False
        deadline = time.monotonic() + _EMPTY_WITHIN_S
        while "populated 1" in (self.path / "cgroup.events").read_text():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return self._remove()

    def _remove(self) -> bool:
        try:
            for below, _, _ in os.walk(self.path, topdown=False):
                os.rmdir(below)
        except OSError:
            return False
        return True


def enter_own_cgroup() -> OwnCgroup | str:
    """Move this process into a leaf of its own; or why that cannot be done. Takes about 10 ms."""
    group = current_cgroup()
    if isinstance(group, str):
        return group
    leaf = group / f"exec-server-{os.getpid()}-{time.monotonic_ns()}"
    try:
        leaf.mkdir()
    except OSError as error:
        return f"cannot make a group in {group}: {error.strerror}"
    try:
        if not (leaf / "cgroup.kill").exists():
            raise FileNotFoundError(0, "no cgroup.kill (Linux >= 5.14 has it)")
        (leaf / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        leaf.rmdir()
        return f"cannot use a group in {group}: {error.strerror}"
    return OwnCgroup(leaf)


def current_cgroup() -> Path | str:
    """The directory of the cgroup v2 that this process is in, where it is writable; or why there is none."""
    mount = _mount_point()
    if mount is None:
        return "cgroup v2 is not mounted"
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        hierarchy, _, path = line.split(":", 2)
        if hierarchy == "0":
            group = Path(mount + path)
            if ".." in path or not group.is_dir():
                return f"{path} is not visible below {mount}"
            if not os.access(group, os.W_OK) or not os.access(group / "cgroup.procs", os.W_OK):
                return f"{group} is not delegated: not writable"
            return group
    return "this process is in no cgroup v2"


def _mount_point() -> str | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        if tail.startswith("cgroup2 "):
            mounted = fields.split(" ")[4]
            return mounted.encode().decode("unicode_escape")
    return None
