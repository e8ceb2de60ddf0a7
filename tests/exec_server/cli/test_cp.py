"""`exec-server cp`: files and folders, there and back."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest

from tests.exec_server.cli.commands import PROGRAM, Inside, environ, one_line, running
from tests.exec_server.cli.tmux import Tmux
from tests.support.cutting_proxy import CuttingProxy
from tests.support.program import ROOT, Program, eventually

MIB = 1 << 20


class Copies:
    """Somebody who copies between two folders, one of them called the server's."""

    def __init__(self, url: str, folder: Path, inside: Inside) -> None:
        self.here, self.there = folder / "here", folder / "there"
        self.here.mkdir()
        self.there.mkdir()
        self._url = url
        self._inside = inside

    def cp(self, *argv: str) -> tuple[int, str]:
        """Status and stderr; `here/…` and `:there/…` are paths in the two folders."""
        paths = {"here": str(self.here), ":there": f":{self.there}"}
        words = []
        for word in argv:
            head, slash, rest = word.partition("/")
            words.append(paths.get(head, head) + slash + rest)
        done = self._inside.type(self._url, "cp", *words)
        assert done.stdout == b""
        return done.status, done.stderr.decode()

    def no_partial_files(self) -> bool:
        return not [*self.here.rglob(".exec-server-*"), *self.there.rglob(".exec-server-*")]


@pytest.fixture
def copies(server: Program, tmp_path: Path, inside: Inside) -> Copies:
    return Copies(server.url, tmp_path, inside)


def tree(folder: Path) -> dict[str, bytes | None]:
    """All that is below a folder; None for folders."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("size", [0, 5, 4 * MIB, 4 * MIB + 1, 20 * MIB + 7])
def test_a_file_there_and_back(copies: Copies, size: int) -> None:
    """Lost: bytes, at the borders between the ways to send them."""
    content = os.urandom(size)
    (copies.here / "file").write_bytes(content)
    assert copies.cp("here/file", ":there/copy") == (0, "")
    assert (copies.there / "copy").read_bytes() == content
    assert copies.cp(":there/copy", "here/back") == (0, "")
    assert (copies.here / "back").read_bytes() == content
    assert copies.no_partial_files()


def test_where_it_goes_is_as_with_cp(copies: Copies) -> None:
    """Lost: what fingers know: into a folder that is there, else under the new name."""
    for name in ("a", "b"):
        (copies.here / name).write_text(name)
    (copies.there / "in").mkdir()
    assert copies.cp("here/a", "here/b", ":there/in") == (0, "")
    assert copies.cp("here/a", ":there/in/") == (0, "")
    assert copies.cp("here/a", ":there/c") == (0, "")
    assert tree(copies.there) == {"in": None, "in/a": b"a", "in/b": b"b", "c": b"a"}
    (copies.here / "back").mkdir()
    assert copies.cp(":there/c", ":there/in/b", "here/back") == (0, "")
    assert tree(copies.here / "back") == {"c": b"a", "b": b"b"}
    assert copies.cp(":there/c", ":there/in/d") == (0, "")
    assert (copies.there / "in" / "d").read_bytes() == b"a"


def test_folders(copies: Copies) -> None:
    """Lost: projects: empty folders, odd names, and what is merged into."""
    project = copies.here / "project"
    (project / "deep" / "er").mkdir(parents=True)
    (project / "empty").mkdir()
    (project / "deep" / "er" / "a b\n'").write_bytes(b"odd")
    (project / os.fsdecode(b"caf\xe9")).write_bytes(b"latin")
    (project / "link").symlink_to("deep/er/a b\n'")
    assert copies.cp("-r", "here/project", ":there/new") == (0, "")
    assert tree(copies.there / "new") == tree(project)
    (copies.there / "more").mkdir()
    assert copies.cp("-r", "here/project", ":there/more") == (0, "")
    assert tree(copies.there / "more" / "project") == tree(project)
    assert copies.cp("-r", ":there/new", "here/back") == (0, "")
    assert tree(copies.here / "back") == tree(project)
    assert copies.cp("-r", ":there/new", ":there/again") == (0, "")
    assert tree(copies.there / "again") == tree(project)


def test_what_cannot_be_copied_is_told(copies: Copies) -> None:
    """Lost: knowledge that a copy is not whole; and an end, where links go in circles."""
    for side, source, target in ((copies.here, "here/odd", ":there/odd"), (copies.there, ":there/odder", "here/odder")):
        folder = side / source.rpartition("/")[2]
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "circle").symlink_to("..")
        os.mkfifo(folder / "pipe")
        (folder / "good").write_text("good")
        status, said = copies.cp("-r", source, target)
        assert status == 1
        assert "circle is a link to a folder" in said and "pipe is neither a file nor a folder" in said
    assert tree(copies.there / "odd") == tree(copies.here / "odder") == {"good": b"good", "sub": None}


def test_an_old_file_keeps_its_mode(copies: Copies) -> None:
    """Lost: the permissions of a secret, and of a script, when a new version is copied over it."""
    for size in (10, 5 * MIB):
        (copies.here / "new").write_bytes(b"n" * size)
        (copies.there / "old").write_text("old")
        (copies.there / "old").chmod(0o640)
        assert copies.cp("here/new", ":there/old") == (0, "")
        assert (copies.there / "old").stat().st_mode & 0o777 == 0o640
        (copies.here / "old").write_text("old")
        (copies.here / "old").chmod(0o750)
        assert copies.cp(":there/old", "here/old") == (0, "")
        assert (copies.here / "old").stat().st_mode & 0o777 == 0o750
        assert (copies.here / "old").read_bytes() == b"n" * size


def test_a_link_in_the_place_of_the_destination_stays(copies: Copies) -> None:
    (copies.there / "file").write_text("new")
    (copies.here / "target").write_text("old")
    (copies.here / "link").symlink_to("target")
    assert copies.cp(":there/file", "here/link") == (0, "")
    assert (copies.here / "link").is_symlink() and (copies.here / "target").read_text() == "new"
    assert copies.cp(":there/file", "/dev/null") == (0, "")


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["here/none", ":there/x"], 1, "none"),
        ([":there/none", "here/x"], 1, "none"),
        (["here/folder", ":there/x"], 1, "-r"),
        ([":there/folder", "here/x"], 1, "-r"),
        (["here/file", ":there/none/x"], 1, "/there/none"),
        ([":there/file", "here/none/x"], 1, "/here/none"),
        (["here/file", ":there/none/"], 1, "no such folder"),
        (["here/file", "here/file", ":there/none"], 1, "no such folder"),
        (["here/file", "here/x"], 2, "colon"),
        (["here/file"], 2, "destination"),
        (["here/file", ":there/file", "here/x"], 2, "one after the other"),
        (["", ":there/file"], 2, "empty"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(copies: Copies, argv: list[str], status: int, said: str) -> None:
    for side in (copies.here, copies.there):
        (side / "folder").mkdir()
        (side / "file").write_bytes(b"f" * 5 * MIB)
    ended, stderr = copies.cp(*argv)
    assert ended == status
    assert said in one_line(stderr.encode())
    assert copies.no_partial_files()
    assert not (copies.here / "x").exists() and not (copies.there / "x").exists()


@pytest.mark.anyio
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("up", [True, False])
async def test_a_copy_that_is_ended_leaves_the_old_file(
    server: Program, tmp_path: Path, up: bool, number: signal.Signals
) -> None:
    """Lost: a file that was good, for a part of one; and disks full of parts."""
    source, old = tmp_path / "source", tmp_path / "old"
    with source.open("wb") as file:
        file.truncate(8 << 30)
    old.write_text("old")
    argv = (str(source), f":{old}") if up else (f":{source}", str(old))

    def begun() -> bool:
        return any(part.stat().st_size > MIB for part in tmp_path.glob(".exec-server-*"))

    async with running(server.url, "cp", *argv) as command:
        await eventually(begun, "a part of the file")
        os.kill(command.pid, number)
        assert await command.done() == (128 + number, b"", b"")
    await eventually(lambda: not [*tmp_path.glob(".exec-server-*")], "the part is gone")
    assert old.read_text() == "old"


@pytest.mark.anyio
async def test_a_cut_is_told_and_leaves_the_old_file(server: Program, tmp_path: Path) -> None:
    """Lost: the difference between a file that was copied and one that was not."""
    source, old = tmp_path / "source", tmp_path / "old"
    source.write_bytes(os.urandom(30 * MIB))
    old.write_text("old")
    for argv in ((str(source), f":{old}"), (f":{source}", str(old))):
        async with CuttingProxy(server.url, [20 * MIB]) as proxy, running(proxy.url, "cp", *argv) as command:
            done = await command.done()
            assert (done.status, proxy.cuts) == (1, 1)
            assert "copy it again" in one_line(done.stderr)
        assert old.read_text() == "old"
        assert not [*tmp_path.glob(".exec-server-*")]


def test_a_bar_on_a_terminal(server: Program, tmp_path: Path) -> None:
    """Lost: how far a long copy is."""
    source = tmp_path / "source"
    source.write_bytes(os.urandom(20 * MIB))
    with Tmux(tmp_path, environ(server.url), cols=100) as tmux:
        tmux.run([*PROGRAM, "cp", str(source), f":{tmp_path}/copy"], "echo status $?")
        screen = tmux.shows("status 0")
        assert "source" in screen and "21.0/21.0 MB" in screen
    assert hashlib.md5((tmp_path / "copy").read_bytes()).digest() == hashlib.md5(source.read_bytes()).digest()


def test_relative_paths_are_in_the_servers_folder(server: Program, tmp_path: Path, inside: Inside) -> None:
    relative = os.path.relpath(tmp_path, ROOT)
    (tmp_path / "here").write_text("relative")
    assert inside.type(server.url, "cp", str(tmp_path / "here"), f":{relative}/there").status == 0
    assert (tmp_path / "there").read_text() == "relative"
