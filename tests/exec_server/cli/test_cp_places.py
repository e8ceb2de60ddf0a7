"""Where `exec-server cp` puts things, compared with cp(1)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

from tests.exec_server.cli.commands import Inside
from tests.support.program import Program

SOURCES = ("src", "src/", "src/.", "src/./", "src/sub/..", "src/sub", "./src", "file")
DESTINATIONS = ("dst", "dst/", "dst/.", "dst/new", "dst/new/", "dst/has", "new", "new/", "dst/taken")
DIRECTIONS = {"up": ("", ":"), "down": (":", ""), "there": (":", ":")}


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that is in a folder: content of files, None for folders."""
    return {str(each.relative_to(folder)): each.read_bytes() if each.is_file() else None for each in folder.rglob("*")}


def made(folder: Path) -> Path:
    (folder / "src" / "sub").mkdir(parents=True)
    (folder / "dst" / "has").mkdir(parents=True)
    for name in ("src/a", "src/sub/b", "dst/taken", "file"):
        (folder / name).write_text(name)
    return folder


def differences(pairs: Iterable[tuple[str, str]], url: str, inside: Inside, folder: Path, way: str) -> list[object]:
    """Pairs of a source and a destination that cp(1) treats otherwise."""
    of_source, of_destination = DIRECTIONS[way]
    found: list[object] = []
    for number, (source, destination) in enumerate(pairs):
        one, other = made(folder / f"{number}-cp"), made(folder / f"{number}-ours")
        argv = ["cp", "-r", f"{one}/{source}", f"{one}/{destination}"]
        status = subprocess.run(argv, capture_output=True).returncode
        argv = ["cp", "-r", f"{of_source}{other}/{source}", f"{of_destination}{other}/{destination}"]
        done = inside.type(url, *argv)
        if (status, tree(one)) != (done.status, tree(other)):
            found.append((source, destination, status, done, sorted(set(tree(one)) ^ set(tree(other)))))
        shutil.rmtree(one)
        shutil.rmtree(other)
    return found


@pytest.mark.parametrize("way", DIRECTIONS)
def test_the_content_of_a_folder_goes_into_another(server: Program, inside: Inside, tmp_path: Path, way: str) -> None:
    """Lost: files in a folder where nobody looks for them."""
    pairs = [("src/.", "dst"), ("src/sub/..", "dst"), ("src", "dst/new/"), ("src", "dst"), ("file", "dst/new/")]
    assert differences(pairs, server.url, inside, tmp_path, way) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", DIRECTIONS)
def test_things_go_where_cp_puts_them(server: Program, inside: Inside, tmp_path: Path, way: str) -> None:
    """Lost: files in a folder where nobody looks for them, or over others."""
    assert differences(product(SOURCES, DESTINATIONS), server.url, inside, tmp_path, way) == []
