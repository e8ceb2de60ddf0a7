"""fs/* on random trees does what plain calls of the system do."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.system.files import carry_out
from protocol.errors import ExecServerError
from protocol.filesystem import (
    CopyParams,
    CreateDirectoryParams,
    ReadDirectoryParams,
    ReadFileParams,
    RemoveParams,
    WalkOptions,
    WalkParams,
    WriteFileParams,
)
from tests.support.examples import examples

NAMES = st.sampled_from(["a", "b", ".c", os.fsdecode(b"\xff")])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: os.path.join(*names))
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, st.binary(max_size=20)),
        st.tuples(st.just("mkdir"), PATHS, st.booleans()),
        st.tuples(st.just("link"), PATHS, PATHS),
        st.tuples(st.just("hardlink"), PATHS, PATHS),
        st.tuples(st.just("remove"), PATHS, st.booleans()),
        st.tuples(st.just("copy"), PATHS, PATHS),
        st.tuples(st.just("read"), PATHS, st.none()),
    ),
    max_size=15,
)
ALL = WalkOptions(64, 10_000, 50_000, False)


def ours(root: Path, name: str, path: str, more: Any) -> object:
    """One operation by way of fs/*; its result, or the refusal."""
    here = str(root / path)
    try:
        match name:
            case "write":
                carry_out(WriteFileParams(here, more))
            case "mkdir":
                carry_out(CreateDirectoryParams(here, more))
            case "remove":
                carry_out(RemoveParams(here, recursive=more, force=False))
            case "copy":
                carry_out(CopyParams(here, str(root / more), False))
            case "read":
                return carry_out(ReadFileParams(here)).data_base64  # type: ignore[attr-defined]
            case _:
                return plain(root, name, path, more)
    except ExecServerError:
        return "refused"
    return None


def plain(root: Path, name: str, path: str, more: Any) -> object:
    """The same by plain calls."""
    here = root / path
    try:
        match name:
            case "write":
                here.write_bytes(more)
            case "mkdir":
                here.mkdir(parents=more, exist_ok=more)
            case "link":
                here.symlink_to(root / more)
            case "hardlink":
                os.link(root / more, here, follow_symlinks=False)
            case "remove" if here.is_dir() and not here.is_symlink():
                (shutil.rmtree if more else os.rmdir)(here)
            case "remove":
                here.unlink()
            case "copy":
                _plain_copy(here, root / more)
            case "read":
                return here.read_bytes()
    except OSError:
        return "refused"
    return None


def _plain_copy(source: Path, destination: Path) -> None:
    if source.is_symlink():
        destination.symlink_to(os.readlink(source))
    elif source.is_dir() or destination.is_dir():
        raise IsADirectoryError
    elif not (destination.exists() and destination.samefile(source)):
        shutil.copyfile(source, destination)
        shutil.copymode(source, destination)


def tree(root: Path) -> dict[str, object]:
    """All names: kind, mode and content; links with what they lead to, below the root."""
    found: dict[str, object] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            content: object = None
            if stat.S_ISLNK(mode):
                content = os.readlink(path).removeprefix(str(root))
            elif stat.S_ISREG(mode):
                content = path.read_bytes(), path.stat().st_nlink
            found[str(path.relative_to(root))] = mode, content
    return found


@given(OPERATIONS)
@examples(150)
def test_the_same_tree_as_by_plain_calls(operations: list[tuple[str, str, Any]]) -> None:
    """A file would be lost, half written or put elsewhere by some sequence that nobody thought of."""
    with tempfile.TemporaryDirectory() as folder:
        mine, model = Path(folder, "mine"), Path(folder, "model")
        mine.mkdir()
        model.mkdir()
        for operation in operations:
            assert ours(mine, *operation) == plain(model, *operation), operation
            assert tree(mine) == tree(model), operation
        walked = carry_out(WalkParams(str(mine), ALL))
        kinds = {entry.path: entry.kind for entry in walked.entries}  # type: ignore[attr-defined]
        expected = {
            (mine / name).as_uri(): "directory" if stat.S_ISDIR(mode) else "file"
            for name, (mode, _) in tree(mine).items()  # type: ignore[misc]
            if not stat.S_ISLNK(mode)
        }
        assert kinds == expected
        names = {entry.path for entry in carry_out(ReadDirectoryParams(str(mine))).entries}  # type: ignore[attr-defined]
        assert names == {path.as_uri() for path in mine.iterdir() if path.exists()}


@pytest.mark.slow
@given(st.lists(st.tuples(PATHS, st.binary(max_size=20)), max_size=12))
@settings(max_examples=100, deadline=None)
def test_a_copied_tree_is_the_same(files: list[tuple[str, bytes]]) -> None:
    """Something would be missing in a copy, or stand elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        source.mkdir()
        for path, content in files:
            plain(source, "mkdir", os.path.dirname(path) or ".", True)
            plain(source, "write", path, content)
        carry_out(CopyParams(str(source), str(Path(folder, "copy")), True))
        assert tree(source) == tree(Path(folder, "copy"))
        carry_out(RemoveParams(str(source)))
        assert not source.exists()
