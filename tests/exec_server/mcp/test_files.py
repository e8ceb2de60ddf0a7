"""Tools for files, as a client of the official package calls them."""

from __future__ import annotations

import base64
import io
import os
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from exec_server.client.files import Files
from exec_server.mcp import search
from exec_server.mcp.policy import Policy
from tests.exec_server.mcp.served import call, refused, served, text_of

pytestmark = pytest.mark.anyio


async def test_reading_goes_on_where_it_has_stopped(tmp_path: Path) -> None:
    """Lost: the end of a file, of which the model does not know that it is there."""
    path = tmp_path / "log"
    path.write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    async with served() as client:
        seen, at, calls = "", 1, 0
        while at is not None:
            found = await call(client, "read_file", path=str(path), start_line=at)
            seen, at, calls = seen + found["text"], found["next_line"], calls + 1
        assert seen == path.read_text() and calls == 3 and found["left_bytes"] == 0
        result = await client.call_tool("read_file", {"path": str(path), "max_lines": 1})
        assert text_of(result) == "line 1\n[… 48886 of 48893 bytes are left: go on with start_line 2 …]"
        assert "has 5000 lines only" in await refused(client, "read_file", path=str(path), start_line=9000)


async def test_reading_by_bytes_breaks_no_character(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("äöü€😀" * 100)
    async with served() as client:
        seen, at = "", 0
        while at is not None:
            found = await call(client, "read_file", path=str(path), start_byte=at, max_bytes=11)
            seen, at = seen + found["text"], found["next_byte"]
        assert seen == path.read_text()


async def test_a_line_longer_than_all_that_is_read(tmp_path: Path) -> None:
    """Lost: a minified file, at its beginning for ever."""
    path = tmp_path / "line"
    path.write_text("x" * 100_000)
    async with served() as client:
        found = await call(client, "read_file", path=str(path))
        assert found["next_line"] is None and found["next_byte"] == len(found["text"]) == 40_000


async def test_what_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    tmp_path.joinpath("image").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    os.mkfifo(tmp_path / "pipe")
    async with served(Policy(str(tmp_path))) as client:
        assert "view_image shows pictures" in await refused(client, "read_file", path="image")
        assert "is a directory: list_directory" in await refused(client, "read_file", path=".")
        assert "is no regular file" in await refused(client, "read_file", path="pipe")
        assert "list_directory shows" in await refused(client, "read_file", path="absent")
        assert "Expected `int` >= 1" in await refused(client, "read_file", path="image", start_line=0)


async def test_write_edit_and_the_diff(tmp_path: Path) -> None:
    async with served(Policy(str(tmp_path))) as client:
        made = await call(client, "write_file", path="deep/er/file.py", content="a = 1\nb = 2\nc = 3\n")
        assert made == {"path": str(tmp_path / "deep/er/file.py"), "size": 18, "created": True}
        edited = await call(client, "edit_file", path="deep/er/file.py", old_text="b = 2", new_text="b = 20")
        assert "-b = 2\n+b = 20\n" in edited["diff"]
        assert tmp_path.joinpath("deep/er/file.py").read_text() == "a = 1\nb = 20\nc = 3\n"
        said = await refused(client, "edit_file", path="deep/er/file.py", old_text=" = ", new_text="=")
        assert "at lines 1, 2, 3" in said
        over = await call(client, "write_file", path="deep/er/file.py", content="")
        assert over["created"] is False


async def test_a_file_that_has_changed_is_not_overwritten(tmp_path: Path) -> None:
    """Lost: what the user has typed meanwhile."""
    path = tmp_path / "file"
    path.write_text("one\n")
    async with served() as client:
        await call(client, "read_file", path=str(path))
        path.write_text("one\nmine\n")
        for tool, arguments in (
            ("edit_file", {"old_text": "one", "new_text": "two"}),
            ("write_file", {"content": "two\n"}),
        ):
            assert "has changed since it was read" in await refused(client, tool, path=str(path), **arguments)
        assert path.read_text() == "one\nmine\n"
        await call(client, "read_file", path=str(path))
        await call(client, "edit_file", path=str(path), old_text="one", new_text="two")
        await call(client, "edit_file", path=str(path), old_text="two", new_text="three")
        assert path.read_text() == "three\nmine\n"


async def test_text_that_is_none_is_not_written(tmp_path: Path) -> None:
    async with served(Policy(str(tmp_path)), mode="auto") as client:
        assert "half of a surrogate pair" in await refused(client, "write_file", path="f", content="a\ud800b")
        assert not tmp_path.joinpath("f").exists()
        assert "more than 8388608" in await refused(client, "write_file", path="f", content="x" * (9 << 20))


@pytest.mark.parametrize(
    "path",
    ["../secret", "/etc/hostname", "link", "folder/secret", "dangling", "a/../../secret", "file:///etc/hostname"],
)
async def test_nothing_leads_out_of_the_root(tmp_path: Path, path: str) -> None:
    """Lost: files that were not meant to be seen, through `..` or a link."""
    root = tmp_path / "root"
    root.mkdir()
    tmp_path.joinpath("secret").write_text("secret")
    root.joinpath("link").symlink_to(tmp_path / "secret")
    root.joinpath("folder").symlink_to(tmp_path)
    root.joinpath("dangling").symlink_to(tmp_path / "new")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {}),
        ("write_file", {"content": "x"}),
        ("edit_file", {"old_text": "secret", "new_text": "x"}),
        ("list_directory", {}),
        ("search_files", {"pattern": "s"}),
        ("view_image", {}),
    ]
    async with served(Policy(None, str(root))) as client:
        for tool, arguments in calls:
            said = await refused(client, tool, path=path, **arguments)
            assert "is outside of" in said or "leads nowhere" in said
    assert tmp_path.joinpath("secret").read_text() == "secret" and not tmp_path.joinpath("new").exists()


async def test_below_a_root_all_is_as_usual(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    real.joinpath("inner").symlink_to("file")
    root = tmp_path / "root"
    root.symlink_to(real)
    async with served(Policy(None, str(root))) as client:
        await call(client, "write_file", path="file", content="x\n")
        await call(client, "write_file", path=str(root / "sub/new"), content="y\n")
        assert (await call(client, "read_file", path="inner"))["text"] == "x\n"
        assert (await call(client, "read_file", path=str(real / "file")))["text"] == "x\n"
        assert (await call(client, "list_directory"))["entries"] == [
            {"name": "file", "kind": "file"},
            {"name": "inner", "kind": "file"},
            {"name": "sub", "kind": "directory"},
        ]


async def test_long_directories_are_cut_and_say_so(tmp_path: Path) -> None:
    for n in range(30):
        tmp_path.joinpath(f"{n:02}").touch()
    async with served() as client:
        found = await call(client, "list_directory", path=str(tmp_path), max_entries=10)
        assert [each["name"] for each in found["entries"]] == [f"{n:02}" for n in range(10)] and found["left"] == 20


@pytest.mark.parametrize("with_ripgrep", [True, False])
async def test_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_ripgrep: bool) -> None:
    """Lost: files that are there, or the same answers on a machine with ripgrep and without."""
    if with_ripgrep and not any(Path(folder, "rg").exists() for folder in os.environ["PATH"].split(":")):
        _fake_ripgrep(tmp_path, monkeypatch)
    if not with_ripgrep:
        monkeypatch.setattr(search, "_has_ripgrep", _no)
    project = tmp_path / "project"
    project.joinpath("src").mkdir(parents=True)
    project.joinpath(".git").mkdir()
    project.joinpath(".git/config").write_text("needle\n")
    project.joinpath("src/a:1:b.py").write_text("hay\nneedle one\n")
    project.joinpath("src/c.txt").write_text("Needle two\nneedle three\n" * 3)
    async with served(Policy(str(project))) as client:
        found = await call(client, "search_files", pattern="needle o|x{3}")
        assert found == {
            "matches": [{"path": str(project / "src/a:1:b.py"), "line": 2, "text": "needle one"}],
            "complete": True,
        }
        found = await call(client, "search_files", pattern="NEEDLE", ignore_case=True, glob="*.txt")
        assert [each["line"] for each in found["matches"]] == [1, 2, 3, 4, 5, 6]
        found = await call(client, "search_files", glob="*.py")
        assert [each["path"] for each in found["matches"]] == [str(project / "src/a:1:b.py")]
        found = await call(client, "search_files", pattern="eedle", max_results=2)
        assert len(found["matches"]) == 2 and not found["complete"]
        assert (await call(client, "search_files", pattern="absent"))["matches"] == []
        assert "cannot search" in await refused(client, "search_files", pattern="(")
        assert "must not contain newlines" in await refused(client, "search_files", pattern="a\nb")
        assert "list_directory shows" in await refused(client, "search_files", pattern="a", path="absent")


async def test_a_search_of_too_many_files_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: files that a model believes not to be there."""
    monkeypatch.setattr(search, "_has_ripgrep", _no)
    monkeypatch.setattr(Files, "walk", partialmethod(Files.walk, max_entries=10))
    for n in range(30):
        tmp_path.joinpath(f"{n:02}").write_text("hay\n")
    async with served(Policy(str(tmp_path))) as client:
        for arguments in ({"pattern": "hay"}, {"glob": "*"}):
            found = await call(client, "search_files", **arguments)
            assert len(found["matches"]) == 10 and not found["complete"]


async def _no(link: object) -> bool:
    return False


def _fake_ripgrep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes those options of ripgrep that are used, and prints what it prints, where there is none."""
    program = folder / "bin" / "rg"
    program.parent.mkdir()
    program.write_text(_RIPGREP)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


_RIPGREP = r"""#!/usr/bin/env python3
import fnmatch, json, os, re, sys
args = sys.argv[1:]
if "--version" in args:
    sys.exit(0)
globs = [args[n + 1] for n, arg in enumerate(args) if arg == "--glob"]
flags = re.IGNORECASE if "--ignore-case" in args else 0
try:
    pattern = re.compile(args[args.index("--regexp") + 1], flags) if "--regexp" in args else None
except re.error as error:
    sys.exit(print(f"rg: regex parse error: {error}", file=sys.stderr) or 2)
for top, folders, files in os.walk(args[-1]):
    folders[:] = [name for name in folders if "!" + name not in globs]
    for name in files:
        path = os.path.join(top, name)
        if not all(fnmatch.fnmatch(name, glob) for glob in globs if not glob.startswith("!")):
            continue
        if pattern is None:
            print(path)
            continue
        for number, line in enumerate(open(path), 1):
            if pattern.search(line):
                data = {"path": {"text": path}, "lines": {"text": line}, "line_number": number}
                print(json.dumps({"type": "match", "data": data}), flush=True)
print(json.dumps({"type": "summary", "data": {}}) if pattern else "", end="")
"""


async def test_view_image(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (4000, 1000), "red").save(tmp_path / "wide.png")
    tmp_path.joinpath("text").write_text("no picture")
    async with served(Policy(str(tmp_path))) as client:
        result = await client.call_tool("view_image", {"path": "wide.png"})
        assert result.structured_content == {"media_type": "image/png", "width": 2048, "height": 512}
        (image,) = [block for block in result.content if block.type == "image"]
        with Image.open(io.BytesIO(base64.b64decode(image.data))) as shown:
            assert shown.size == (2048, 512)
        assert "no PNG, JPEG, WebP or GIF" in await refused(client, "view_image", path="text")
        assert "unable to locate image" in await refused(client, "view_image", path="absent.png")
