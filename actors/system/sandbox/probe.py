"""Whether bwrap works on this machine: looked up and tried out once, when the first sandbox is asked for. Blocks."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import threading
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


def bubblewrap() -> Bubblewrap:
    """The bwrap of this machine; the first call tries it out, up to 10 s. Raises SandboxUnsupported, which says what
    is missing and how to have it. A bwrap that is installed later is found; one that does not work is tried once.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxUnsupported("there is no bwrap in the server's PATH; install the package bubblewrap")
    with _lock:
        if program not in _found:
            _found[program] = _tried(program)
        found = _found[program]
    if isinstance(found, str):
        raise SandboxUnsupported(found)
    return found


def _tried(program: str) -> Bubblewrap | str:
    architecture = seccomp.ARCHITECTURES.get(platform.machine())
    if architecture is None:
        known = " and ".join(seccomp.ARCHITECTURES)
        return f"system calls can be filtered on {known} only, and this is {platform.machine()}"
    failure = _failure(program)
    if failure is not None:
        return f"{program} cannot make its namespaces here: {failure}; {_remedy()}"
    return Bubblewrap(program, architecture, _kernel_files())


def _failure(program: str) -> str | None:
    """What bwrap says where it does not work."""
    argv = [program, *NAMESPACES, "--unshare-net", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
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
