"""Which guarantees hold on this machine: facts only, looked up and tried out, nothing is changed."""

from __future__ import annotations

import errno
import os
import platform
import resource
import subprocess
import sys
from typing import Final, NamedTuple

from actors.system.child import posix_spawn, proc
from actors.system.child.cgroup import current_cgroup
from actors.system.sandbox.errors import SandboxUnsupported
from actors.system.sandbox.probe import bubblewrap

_TRY_S: Final = 5
_TRY_SUBREAPER: Final = "import ctypes, sys; sys.exit(ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) != 0)"
_TRY_NAMESPACE: Final = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"


class Fact(NamedTuple):
    """One guarantee: its name, whether it holds here, and how that shows or what follows."""

    name: str
    holds: bool
    detail: str


def facts() -> list[Fact]:
    """All of them, in the order of their weight. Starts short-lived processes; up to 5 s where one hangs."""
    return [
        _pidfd(),
        _subreaper(),
        _cgroup(),
        _closefrom(),
        _proc_children(),
        _terminals(),
        _open_files(),
        _user_namespaces(),
        _bwrap(),
        _guardian(),
    ]


def _pidfd() -> Fact:
    kernel = platform.release()
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError as error:
        return Fact("pidfd", False, f"Linux {kernel}: {error.strerror}; exits cannot be seen, nothing will run")
    try:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        pass  # it is no child: the kernel knows what was asked
    except OSError as error:
        return Fact("pidfd", False, f"Linux {kernel}: no waitid(P_PIDFD): {error.strerror}")
    finally:
        os.close(pidfd)
    return Fact("pidfd", True, f"Linux {kernel}")


def _subreaper() -> Fact:
    holds = _succeeds([sys.executable, "-I", "-S", "-c", _TRY_SUBREAPER])
    return Fact("subreaper", holds, "orphans of commands come to the server" if holds else "orphans go to init")


def _cgroup() -> Fact:
    group = current_cgroup()
    if isinstance(group, str):
        return Fact("cgroup", False, f"{group}; young setsid descendants may outlive a killed server")
    # The root group, where a container's own processes often are, has no cgroup.kill; those made below it
    # have.
    if not (group / "cgroup.kill").exists() and (group / "cgroup.type").exists():
        return Fact("cgroup", False, f"{group} has no cgroup.kill (Linux >= 5.14)")
    return Fact("cgroup", True, f"{group} is writable; nothing outlives the server")


def _closefrom() -> Fact:
    detail = "" if posix_spawn.HAS_CLOSEFROM else "descriptors without close-on-exec are looked up at each start"
    return Fact("addclosefrom_np", posix_spawn.HAS_CLOSEFROM, detail)


def _proc_children() -> Fact:
    detail = "" if proc.HAS_CHILDREN else "no CONFIG_PROC_CHILDREN: descendants are looked for in all of /proc"
    return Fact("proc_children", proc.HAS_CHILDREN, detail)


def _terminals() -> Fact:
    from actors.system.child.terminal import open_master

    try:
        master, name = open_master(24, 80)
    except OSError as error:
        return Fact("terminals", False, f"/dev/ptmx: {error.strerror}")
    holds = os.access(name, os.R_OK | os.W_OK)
    os.close(master)
    return Fact("terminals", holds, "" if holds else f"{os.fsdecode(name)} cannot be opened: is devpts mounted?")


def _open_files() -> Fact:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    # A child takes four descriptors at most, its actor one, a connection one.
    room = "unlimited" if unlimited else f"about {max(0, hard - 100) // 5} children at a time"
    return Fact("open_files", unlimited or hard >= 6000, f"soft {soft}, hard {hard}: {room}")


def _user_namespaces() -> Fact:
    holds = _succeeds([sys.executable, "-I", "-S", "-c", _TRY_NAMESPACE])
    return Fact("user_namespaces", holds, "" if holds else "unshare(CLONE_NEWUSER) is refused")


def _bwrap() -> Fact:
    try:
        return Fact("bwrap", True, bubblewrap().program)
    except SandboxUnsupported as error:
        return Fact("bwrap", False, f"a managed sandbox is refused: {error.reason}")


def _guardian() -> Fact:
    holds = _succeeds(["/bin/sh", "-c", "trap '' TERM; unset s1; test -n \"$PPID\""])
    return Fact("guardian", holds, f"/bin/sh and {sys.executable}" if holds else "/bin/sh does not work")


def _succeeds(argv: list[str]) -> bool:
    try:
        ran = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRY_S,
        )
    except subprocess.TimeoutExpired:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
            raise
        return False
    return ran.returncode == 0
