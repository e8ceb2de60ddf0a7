"""Whether bwrap works on this machine: looked up once, as the server starts, and tried out once, when the first sandbox
is asked for. Blocks.

A command may write to folders that are in PATH, in its workspace for one. So PATH is looked at before there is any, and
a program counts only where nobody but root and the server's user could have put it."""

from __future__ import annotations

import os
import platform
import stat
import subprocess
import threading
from functools import lru_cache
from typing import Final, NamedTuple

from actors.system.child.table import CHILDREN
from actors.system.sandbox import seccomp
from actors.system.sandbox.bubblewrap import NAMESPACES
from actors.system.sandbox.errors import SandboxUnsupported

TRY_S: Final = 10
_SYSCTLS: Final = (
    ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
)


class Bubblewrap(NamedTuple):
    """A bwrap that works here, and what it needs to know about the machine."""

    program: str
    architecture: seccomp.Architecture
    kernel_files: list[str]


_lock = threading.Lock()
_found: dict[str, Bubblewrap | str] = {}


@lru_cache(maxsize=1)
def program() -> str | None:
    """The canonical path of the bwrap that counts, None where there is none; the first call looks it up for good."""
    return next((path for path in _candidates() if _replaceable(path) is None), None)


def bubblewrap() -> Bubblewrap:
    """The bwrap of this machine; the first call tries it out, up to 10 s. Raises SandboxUnsupported, which says what
    is missing and how to have it. One that is installed later is found by the next server.
    """
    path = program()
    if path is None:
        raise SandboxUnsupported(_missing())
    with _lock:
        if path not in _found:
            _found[path] = _tried(path)
        found = _found[path]
    if isinstance(found, str):
        raise SandboxUnsupported(found)
    return found


def _candidates() -> list[str]:
    """Canonical paths of the programs named bwrap in PATH. A relative folder there is not looked into."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = [os.path.join(folder, "bwrap") for folder in folders if os.path.isabs(folder)]
    return [os.path.realpath(path) for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]


def _replaceable(path: str) -> str | None:
    """The file, or the folder above it, that another user can change; None where there is none."""
    at = path
    while True:
        try:
            status = os.stat(at)
        except OSError:
            return at
        shared = status.st_mode & (0o002 if status.st_gid == 0 else 0o022)
        # In a sticky folder nobody can replace what belongs to another.
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, os.geteuid()) or (shared and not sticky):
            return at
        if at == "/":
            return None
        at = os.path.dirname(at)


def _missing() -> str:
    for path in _candidates():
        if (changeable := _replaceable(path)) is not None:
            return f"{path} is not run, since another user can change {changeable}; install the package bubblewrap"
    return "the server has found no bwrap in its PATH as it started; install the package bubblewrap and restart it"


def _tried(path: str) -> Bubblewrap | str:
    architecture = seccomp.ARCHITECTURES.get(platform.machine())
    if architecture is None:
        known = " and ".join(seccomp.ARCHITECTURES)
        return f"system calls can be filtered on {known} only, and this is {platform.machine()}"
    failure = _failure(path)
    if failure is not None:
        return f"{path} cannot make its namespaces here: {failure}; {_remedy()}"
    return Bubblewrap(path, architecture, _kernel_files())


def _failure(path: str) -> str | None:
    """What bwrap says where it does not work."""
    argv = [path, *NAMESPACES, "--unshare-net", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
    argv += ["--dev", "/dev", "--proc", "/proc", "--perms", "0555", "--tmpfs", "/tmp", "--remount-ro", "/tmp"]
    try:
        with CHILDREN.spawning():  # nobody else may reap it
            ran = subprocess.run(
                [*argv, "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=TRY_S, errors="replace"
            )
    except subprocess.TimeoutExpired:
        return f"no answer within {TRY_S} s"
    except OSError as error:
        return error.strerror or str(error)
    return (ran.stderr.strip() or f"exit status {ran.returncode}") if ran.returncode else None


def _remedy() -> str:
    for name, refusing, remedy in _SYSCTLS:
        try:
            with open(f"/proc/sys/{name}") as setting:
                if setting.read().strip() == refusing:
                    return f"user namespaces are turned off, `{remedy}` allows them"
        except OSError:
            continue  # a kernel without it
    return "user namespaces are needed, which many containers forbid (seccomp or AppArmor profile)"


def _kernel_files() -> list[str]:
    """Directories in /proc, and the files there that somebody may write to; not those of processes."""
    found = []
    for name in sorted(os.listdir("/proc")):
        path = os.path.join("/proc", name)
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue  # gone, or hidden: it cannot be written to then
        if not name.isdigit() and (stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and mode & 0o222)):
            found.append(path)
    return found
