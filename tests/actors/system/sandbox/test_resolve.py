"""Where entries lead, on a real file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.system.sandbox.errors import SandboxUnsupported
from actors.system.sandbox.resolve import ResolvedRules, resolve, walk
from actors.system.sandbox.rules import Link, Rule
from protocol.errors import InvalidParams
from protocol.sandbox import ManagedPermissions, RestrictedFileSystem, Sandbox
from tests.support.managed import ROOT, ROOTS, entry


def found(workspace: Path, *entries: dict[str, Any], runtime: tuple[str, ...] = ()) -> ResolvedRules:
    """What these entries come to."""
    raw = {
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": entries},
            "network": "restricted",
        },
        "workspaceRoots": [str(workspace)],
        "windowsSandboxLevel": "disabled",
    }
    sandbox = msgspec.convert(raw, Sandbox)
    assert isinstance(sandbox.permissions, ManagedPermissions)
    assert isinstance(sandbox.permissions.file_system, RestrictedFileSystem)
    return resolve(sandbox, sandbox.permissions.file_system, runtime)


def special(kind: str, access: str, **more: str) -> dict[str, Any]:
    return {"path": {"type": "special", "value": {"kind": kind, **more}}, "access": access}


def test_the_entries_of_the_real_client(tmp_path: Path) -> None:
    """Every command of the CLI would be refused, or not confined."""
    (tmp_path / ".git").mkdir()
    git = {**special("project_roots", "read", subpath=".git"), "missing_path_behavior": "skip"}
    rules = found(tmp_path, ROOT, ROOTS, git).rules
    assert rules.access("/etc") == "read" and rules.access(str(tmp_path / "x")) == "write"
    assert rules.access(str(tmp_path / ".git/hooks")) == "read"
    missing = [rule.path for rule in rules if rule.kind == "missing"]
    assert missing == [str(tmp_path / name) for name in (".agents", ".aws", ".codex")]


def test_what_is_missing(tmp_path: Path) -> None:
    """A path that may not be written to could be made by the command itself."""
    gone = [entry("/nonexistent/x", "write"), entry("/nonexistent", "deny")]
    rules = found(tmp_path, ROOT, ROOTS, entry(tmp_path / "a/b", "read"), *gone).rules
    assert Rule(str(tmp_path / "a"), "read", "missing") in list(rules)
    assert rules.access("/nonexistent/x") == "read"


def test_links_are_followed_only_where_nobody_can_change_them(tmp_path: Path) -> None:
    """One command would choose what the next may write to."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to("real")
    assert found(tmp_path / "other", ROOT, entry(link, "write")).rules.access(str(real / "x")) == "write"
    for access in ("write", "read", "deny"):
        with pytest.raises(SandboxUnsupported, match="symbolic link"):
            found(tmp_path, ROOT, ROOTS, entry(link, access))
    (real / ".git").symlink_to("/etc")
    with pytest.raises(SandboxUnsupported, match=r"\.git is a symbolic link"):
        found(real, ROOT, ROOTS)


def test_a_walk_follows_links_as_the_kernel_does(tmp_path: Path) -> None:
    """Rules for one place, and a mount at another."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").touch()
    (tmp_path / "up").symlink_to("a/b/..")
    (tmp_path / "far").symlink_to(tmp_path / "up/b")
    for name in ("up", "far", "far/file", "a/../far/../b", "up/up"):
        path = str(tmp_path / name)
        walked = walk(path)
        assert walked.path == os.path.realpath(path)
        assert (walked.first_missing is None) is os.path.exists(path)
    assert walk(str(tmp_path / "far/no/file")).first_missing == str(tmp_path / "a/b/no")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SandboxUnsupported, match="too many"):
        walk(str(tmp_path / "loop"))


def test_links_are_made_where_the_root_is_empty(tmp_path: Path) -> None:
    """`/bin/sh` would not be there."""
    (tmp_path / "usr").mkdir()
    (tmp_path / "bin").symlink_to("usr")
    made = found(tmp_path / "other", entry(tmp_path / "bin", "read"))
    assert made.links == [Link(str(tmp_path / "bin"), "usr")] and made.rules.access(str(tmp_path / "usr/x")) == "read"


def test_the_code_of_the_server_is_never_writable(tmp_path: Path) -> None:
    """A command would write what the server runs outside, with its next start or import."""
    code = tmp_path / "code"
    code.mkdir()
    rules = found(tmp_path, ROOT, ROOTS, entry(code, "write"), runtime=(str(code / "x"), "/usr")).rules
    assert rules.access(str(code / "x")) == "read" and rules.access(str(code / "y")) == "write"


@pytest.mark.parametrize("path", ["relative", "http://host/x", "file://other/x", "/nul\0"])
def test_a_path_that_is_none(tmp_path: Path, path: str) -> None:
    """An entry that was dropped might have been the one that denies."""
    with pytest.raises(InvalidParams):
        found(tmp_path, ROOT, entry(path, "deny"))


def test_h8b_what_is_below_something_missing_is_not_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lost: a thread, for hours, to a path of a million parts of which the first is missing."""
    looked = []
    lstat = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: looked.append(path) or lstat(path))
    path = f"{tmp_path}/missing" + "/a" * 100_000 + "/../b"
    leads = walk(path)
    assert (leads.first_missing, leads.kind) == (f"{tmp_path}/missing", "missing")
    assert leads.path == f"{tmp_path}/missing" + "/a" * 99_999 + "/b"
    assert len(looked) == len(tmp_path.parts)


def test_h8b_a_look_has_an_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lost: a thread, for as long as a slow disk takes for a thousand entries."""
    monkeypatch.setattr("actors.system.sandbox.resolve.LOOK_S", -1.0)
    with pytest.raises(SandboxUnsupported, match="name fewer"):
        found(tmp_path, ROOTS)
