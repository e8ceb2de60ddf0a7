"""Where the entries of a sandbox lead on this machine. Looks at the file system; blocks.

A sandboxed command can change whatever is in a writable place, symbolic links included. So a link there is never
followed for an entry: it would let one command choose what the next may write to.
"""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from actors.system.sandbox.errors import SandboxUnsupported
from actors.system.sandbox.rules import Access, Kind, Link, Rule, Rules, is_inside
from protocol.paths import native_path
from protocol.sandbox import (
    CurrentWorkingDirectory,
    Entry,
    GlobPattern,
    Minimal,
    PlainPath,
    ProjectRoots,
    RestrictedFileSystem,
    Root,
    Sandbox,
    SlashTmp,
    SpecialPath,
    TmpDir,
)

MINIMAL: Final = ("/bin", "/sbin", "/usr", "/etc", "/lib", "/lib32", "/lib64", "/nix/store", "/run/current-system/sw")
"""What `minimal` stands for, as far as it is there."""
METADATA: Final = (".git", ".agents", ".codex", ".aws")
"""Names in a writable directory that stay read-only unless an entry says otherwise: what is in them is obeyed outside
of the sandbox. Upstream's server does the same."""
_MOST_LINKS: Final = 40
_MOST_ENTRIES: Final = 1000
_MOST_PATHS: Final = 4000
LOOK_S: Final = 5.0
"""How long it may take to look where all entries of a sandbox lead, in seconds."""
_OURS: Final = ("/proc", "/dev")
"""Made anew for each sandbox."""


class ResolvedRules(NamedTuple):
    """Rules, and the links that must be there for their paths to be found."""

    rules: Rules
    links: list[Link]


class ResolvedPath(NamedTuple):
    """Where a path leads: the canonical path, what is there, the links on the way, and the first component that is
    missing (None where nothing is)."""

    path: str
    kind: Kind
    links: list[Link]
    first_missing: str | None


def resolve(
    sandbox: Sandbox, file_system: RestrictedFileSystem, runtime: Iterable[str], protected: Iterable[str] = ()
) -> ResolvedRules:
    """The rules that the entries come to. `runtime` are canonical directories of the server's own code, which can be
    read unless denied; `protected` is whatever else the server may load or execute. Neither is ever written. Raises
    SandboxUnsupported where the entries cannot be enforced, and InvalidParams for a path that is none.
    """
    if len(file_system.entries) > _MOST_ENTRIES:
        raise SandboxUnsupported(f"more than {_MOST_ENTRIES} entries")
    all_wanted = ((path, _access(entry), entry) for entry in file_system.entries for path in _paths(sandbox, entry))
    wanted = list(islice(all_wanted, _MOST_PATHS + 1))
    if len(wanted) > _MOST_PATHS:
        raise SandboxUnsupported(f"entries for more than {_MOST_PATHS} paths")
    deadline = time.monotonic() + LOOK_S
    walked = [(walk(path, deadline), access, entry) for path, access, entry in wanted]
    runtime, protected = list(runtime), list(protected)
    _check_code(walked, {*runtime, *protected})
    rules = Rules(Rule(found.path, "write", found.kind) for found, access, _ in walked if _grants(found, access))
    _check_links(walked, rules)
    for found, access, _ in walked:
        _check_ours(found.path, access)
        if access != "write" and found.first_missing is None:
            rules.add(Rule(found.path, access, found.kind))
    for found, access, _ in walked:
        if access != "write" and found.first_missing is not None and rules.access(found.first_missing) == "write":
            rules.add(Rule(found.first_missing, access, "missing"))
    _protect_metadata(rules, {found.path for found, _, _ in walked}, walked)
    for path in runtime:
        if rules.access(path) in ("write", None):
            rules.add(Rule(path, "read"))
    for path in protected:
        if rules.access(path) == "write":
            rules.add(Rule(path, "read"))
    links = {link for found, access, _ in walked if access != "deny" for link in found.links}
    return ResolvedRules(rules, sorted(link for link in links if rules.access(link.path) is None))


def _access(entry: Entry) -> Access:
    return "deny" if entry.access == "none" else entry.access


def _grants(found: ResolvedPath, access: Access) -> bool:
    return access == "write" and found.first_missing is None


def _paths(sandbox: Sandbox, entry: Entry) -> Iterator[str]:
    """The native paths that an entry is about."""
    match entry.path:
        case PlainPath(path):
            yield os.path.normpath("/" + native_path(path).lstrip("/"))
        case GlobPattern(pattern):
            if _access(entry) == "deny":
                raise SandboxUnsupported(f"the pattern {pattern!r} cannot be hidden; name the paths")
        case SpecialPath(value):
            yield from _special(sandbox, value, _access(entry))


def _special(sandbox: Sandbox, value: object, access: Access) -> Iterator[str]:
    match value:
        case Root():
            yield "/"
        case Minimal():
            yield from filter(os.path.lexists, MINIMAL)
        case CurrentWorkingDirectory():
            cwd = sandbox.cwd or (sandbox.policy_context.cwd if sandbox.policy_context else None)
            yield from [] if cwd is None else [native_path(cwd)]
        case ProjectRoots(subpath):
            for root in _workspace_roots(sandbox):
                yield _below(native_path(root), subpath)
        case TmpDir():
            directory = os.environ.get("TMPDIR", "")
            yield from [directory] if os.path.isabs(directory) else []
        case SlashTmp():
            yield "/tmp"
        case _:
            if access == "deny":
                raise SandboxUnsupported("an entry of the kind `unknown` cannot be hidden")


def _workspace_roots(sandbox: Sandbox) -> list[str]:
    if sandbox.workspace_roots is not None:
        return sandbox.workspace_roots
    return (sandbox.policy_context.workspace_roots if sandbox.policy_context else None) or []


def _below(root: str, subpath: str | None) -> str:
    if subpath is None:
        return root
    if os.path.isabs(subpath) or ".." in subpath.split("/") or "\0" in subpath:
        raise SandboxUnsupported(f"`subpath` {subpath!r} is not a path below a project root")
    return os.path.join(root, subpath)


def walk(path: str, deadline: float = math.inf) -> ResolvedPath:
    """Follow an absolute path, link by link, until the first part that is missing. Raises SandboxUnsupported where it
    cannot be looked at, or not before `deadline`, by `time.monotonic`."""
    parts = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    at, links, kind, missing = "/", list[Link](), "directory", None
    while parts:
        part = parts.pop()
        if part == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, part)
        if time.monotonic() > deadline:
            raise SandboxUnsupported(f"where the entries lead was not found out in {LOOK_S:.0f} s; name fewer")
        mode = _mode(here)
        if mode is not None and stat.S_ISLNK(mode):
            links.append(Link(here, os.readlink(here)))
            if len(links) > _MOST_LINKS:
                raise SandboxUnsupported(f"too many symbolic links on the way to {path}")
            parts += [each for each in reversed(links[-1].target.split("/")) if each not in ("", ".")]
            at = "/" if os.path.isabs(links[-1].target) else at
            continue
        if mode is None:  # and nothing below it is there to be looked at
            at, missing = os.path.normpath("/".join((here, *reversed(parts)))), here
            break
        kind = "directory" if mode is not None and stat.S_ISDIR(mode) else "file"
        at = here
    return ResolvedPath(at, "missing" if missing else kind, links, missing)  # type: ignore[arg-type]


def _mode(path: str) -> int | None:
    """Type and mode of what is there, None where nothing is."""
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SandboxUnsupported(f"{path} of an entry: {error.strerror}") from None


def _check_links(walked: Iterable[tuple[ResolvedPath, Access, Entry]], writable: Rules) -> None:
    for found, access, _ in walked:
        for link in found.links:
            if writable.access(os.path.dirname(link.path)) == "write":
                raise SandboxUnsupported(
                    f"the entry for {found.path} ({access}) goes through the symbolic link {link.path}, "
                    "which a sandboxed command could replace"
                )


def _check_code(walked: Iterable[tuple[ResolvedPath, Access, Entry]], code: set[str]) -> None:
    for found, access, _ in walked:
        for path in code:
            if access == "write" and (found.path == path or is_inside(found.path, path)):
                raise SandboxUnsupported(f"{found.path} cannot be writable: the server runs code from {path}")


def _check_ours(path: str, access: Access) -> None:
    for ours in _OURS:
        if access != "deny" and (path == ours or is_inside(path, ours)):
            raise SandboxUnsupported(f"{path}: a sandbox has its own {ours}, no other can be had")


def _protect_metadata(rules: Rules, named: set[str], walked: Iterable[tuple[ResolvedPath, Access, Entry]]) -> None:
    temporary = {
        found.path for found, _, entry in walked
        if isinstance(entry.path, SpecialPath) and isinstance(entry.path.value, TmpDir | SlashTmp)
    }  # fmt: skip
    for rule in list(rules):
        if rule.access != "write" or rule.kind != "directory" or rule.path == "/" or rule.path in temporary:
            continue
        for name in METADATA:
            path = os.path.join(rule.path, name)
            if path not in named and path not in rules:
                found = walk(path)
                if found.links:
                    raise SandboxUnsupported(f"{path} is a symbolic link, which a sandboxed command could replace")
                rules.add(Rule(path, "read", found.kind))
