"""A sandbox that is ready to start a command in. Looks at the file system; blocks."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

import actors
import protocol
from actors.system.sandbox import seccomp
from actors.system.sandbox.bubblewrap import arguments
from actors.system.sandbox.errors import SandboxUnsupported
from actors.system.sandbox.mount_points import MOUNT_POINTS
from actors.system.sandbox.private_files import hide_private
from actors.system.sandbox.probe import bubblewrap
from actors.system.sandbox.resolve import resolve
from actors.system.sandbox.rules import Link, Rule, Rules
from protocol.sandbox import ManagedPermissions, RestrictedFileSystem, Sandbox


class SandboxSpec(NamedTuple):
    """How bwrap is called: its program, its arguments before the command, the filter of system calls, and what is to be
    released with `MOUNT_POINTS.release` when the last process inside has ended."""

    program: str
    arguments: list[str]
    filter: bytes
    mount_points: list[str]


def sandbox_spec(sandbox: Sandbox, permissions: ManagedPermissions) -> SandboxSpec:
    """Raises SandboxUnsupported where the sandbox cannot be enforced, and InvalidParams for a path that is none."""
    found = bubblewrap()
    network = permissions.network == "enabled"
    held: list[str] = []
    rules: Rules | None = None
    links: list[Link] = []
    if isinstance(permissions.file_system, RestrictedFileSystem):
        rules, links = resolve(sandbox, permissions.file_system, runtime(), protected(found.program))
        hide_private(rules)
        rules = _with_mount_points(rules, held)
    return SandboxSpec(
        found.program,
        arguments(rules, links, network, found.kernel_files),
        seccomp.program(found.architecture, network),
        held,
    )


def _with_mount_points(rules: Rules, held: list[str]) -> Rules:
    """The same rules, with a mount point made wherever one is needed; `held` gets their paths."""
    made = Rules()
    try:
        for rule in rules:
            above = rules.above(rule.path)
            if above is None or above.access != "write" or rule.access == "write" or rule.kind == "file":
                made.add(rule)
                continue
            holds = MOUNT_POINTS.acquire(rule.path)
            if holds is None and rule.kind == "missing":
                raise SandboxUnsupported(f"{rule.path} has appeared just now; try again")
            if holds:
                held.append(rule.path)
            if holds is not False:
                made.add(Rule(rule.path, rule.access, "missing" if holds else rule.kind))
    except OSError as error:
        MOUNT_POINTS.release(held)
        raise SandboxUnsupported(f"{error.filename} cannot be protected: {error.strerror}") from None
    except SandboxUnsupported:
        MOUNT_POINTS.release(held)
        raise
    return made


@lru_cache(maxsize=1)
def runtime() -> tuple[str, ...]:
    """Canonical paths of the code that this server, and what it runs inside a sandbox, is made of. Commands may read
    it, and never write to it: they would get out that way.
    """
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*_packages(), interpreter()]
    if sys.prefix != sys.base_prefix:
        paths.append(sys.prefix)
    return tuple(sorted({os.path.realpath(path) for path in paths if path and os.path.exists(path)}))


@lru_cache(maxsize=1)
def protected(bwrap: str) -> tuple[str, ...]:
    """Canonical paths of all else that this server may ever import or execute by itself: where modules are looked up,
    the folders of the interpreter, of the program that was called and of bwrap."""
    paths = [*sys.path, *(str(each) for module in list(sys.modules.values()) for each in _folders_of(module))]
    paths += [os.path.dirname(each) for each in (sys.executable, interpreter(), os.path.abspath(sys.argv[0]), bwrap)]
    if site.ENABLE_USER_SITE:
        paths.append(site.getusersitepackages())
    return tuple(sorted({os.path.realpath(path) for path in paths if os.path.exists(path or ".")}))


def _folders_of(module: object) -> Iterable[object]:
    path = getattr(module, "__path__", ())
    return path if isinstance(path, Iterable) else ()


def import_path() -> list[str]:
    """Where the modules of the helper are found; for a Python without its site module."""
    return list(dict.fromkeys(os.path.dirname(os.path.realpath(path)) for path in _packages()))


def interpreter() -> str:
    """The Python that runs inside: this one, without the links that lead to it."""
    return os.path.realpath(sys.executable)


def _packages() -> list[str]:
    names = ("exec_server", "transport")  # what imports us is protected as well
    loaded = [sys.modules[name] for name in names if name in sys.modules]
    return [path for package in (protocol, actors, msgspec, *loaded) for path in package.__path__]
