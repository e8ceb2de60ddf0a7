"""AGENTS.md of a folder, here and behind a server (section 4.4)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.context.instructions import Content, Instructions, Source, assembled, fitted, load_instructions
from harness.reader import LocalReader, Reader

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    (tmp_path / "project" / "nested").mkdir()
    (tmp_path / "AGENTS.md").write_text("above the project")
    return tmp_path / "project"


async def loaded(reader: Reader, folder: Path, **more: object) -> Instructions:
    found = await load_instructions(reader, str(folder), **more)  # type: ignore[arg-type]
    assert found is not None
    return found


async def test_the_nearest_file_wins(reader: Reader, project: Path) -> None:
    """Section 4.4. Lost: the instructions of the folder that is worked in, to those of the root."""
    (project / "AGENTS.md").write_text("root")
    (project / "nested" / "AGENTS.md").write_text("abcdef")
    found = await loaded(reader, project / "nested", limit=7)
    assert found.text == (f"[4 of the 4 bytes of {project}/AGENTS.md are left out: they are over the limit]\n\nabcdef")
    assert found.sources == (
        Source(f"{project}/AGENTS.md", "project", 4, 0),
        Source(f"{project}/nested/AGENTS.md", "project", 6, 6),
    )
    assert (await loaded(reader, project / "nested")).text == "root\n\nabcdef"
    assert await load_instructions(reader, str(project / "nested"), limit=0) is None


async def test_cut_at_a_line(reader: Reader, project: Path) -> None:
    (project / "AGENTS.md").write_text("first ä\nsecond\nthird")
    found = await loaded(reader, project, limit=17)
    assert found.text == (
        f"first ä\nsecond\n[5 of the 21 bytes of {project}/AGENTS.md are left out: they are over the limit]"
    )
    assert found.sources[0].used == 16 and found.sources[0].size == 21


async def test_where_a_project_begins(reader: Reader, project: Path) -> None:
    """Section 4.4. A file `.git` counts; without markers only the folder itself is looked into."""
    (project / "AGENTS.md").write_text("root\n")
    (project / "nested" / "AGENTS.md").write_text("nested\n")
    (project / ".git").rmdir()
    (project / ".git").write_text("gitdir: elsewhere")
    assert (await loaded(reader, project / "nested")).text == "root\n\nnested"
    assert (await loaded(reader, project / "nested", markers=())).text == "nested"
    assert (await loaded(reader, project / "nested", markers=("none",))).text == "nested"
    (project / "nested" / ".hg").mkdir()
    assert (await loaded(reader, project / "nested", markers=(".git", ".hg"))).text == "nested"
    assert (await loaded(reader, project / "nested" / "not-there")).text == "root\n\nnested"


async def test_which_file_of_a_folder(reader: Reader, project: Path) -> None:
    """Section 4.4. A blank override does not hide what is beside it."""
    (project / "CLAUDE.md").write_text("other")
    assert await load_instructions(reader, str(project)) is None
    assert (await loaded(reader, project, names=("CLAUDE.md",))).text == "other"
    (project / "AGENTS.md").write_text("usual")
    assert (await loaded(reader, project, names=("CLAUDE.md",))).text == "usual"
    (project / "AGENTS.override.md").write_text(" \n\t\n")
    assert (await loaded(reader, project)).text == "usual"
    (project / "AGENTS.override.md").write_text("override")
    found = await loaded(reader, project)
    assert found.text == "override" and len(found.sources) == 1


async def test_the_users_own(reader: Reader, project: Path, tmp_path: Path) -> None:
    """Section 4.4: apart, with a limit of their own."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "AGENTS.md").write_text("\n mine \n")
    assert (await loaded(reader, project, home=str(home))).text == "mine"
    (project / "AGENTS.md").write_text("theirs")
    found = await loaded(reader, project, home=str(home), limit=8)
    assert found.text == "mine\n\n--- project-doc ---\n\ntheirs"
    assert [(each.origin, each.used) for each in found.sources] == [("user", 8), ("project", 6)]
    (home / "AGENTS.override.md").write_text("now")
    assert (await loaded(reader, project, home=str(home))).text.startswith("now\n\n---")
    assert (await loaded(LocalReader(), project, home=str(home), home_reader=reader)).text.startswith("now\n\n---")


async def test_nothing_to_tell(reader: Reader, project: Path) -> None:
    """Section 4.4: no file, None; blank ones cost nothing."""
    assert await load_instructions(reader, str(project), home=str(project / "none")) is None
    (project / "AGENTS.md").write_text(" \n")
    assert await load_instructions(reader, str(project)) is None
    assert await load_instructions(reader, "/") is None
    with pytest.raises(ValueError, match="'relative'"):
        await load_instructions(reader, "relative")


async def test_bad_files_are_warnings(reader: Reader, project: Path) -> None:
    """Bad input. Lost: the turn, to a file that an agent has no use for."""
    nested = project / "nested"
    os.mkfifo(project / "AGENTS.override.md")
    (project / "AGENTS.md").write_bytes(b"good \xff bytes")
    (nested / "AGENTS.override.md").mkdir()
    (nested / "AGENTS.md").symlink_to("AGENTS.md")
    (nested / "third.md").symlink_to("/dev/zero")
    found = await loaded(reader, nested, names=("third.md",))
    assert found.text == "good � bytes"
    assert found.warnings == (
        f"{project}/AGENTS.override.md: it is not a regular file",
        f"{project}/AGENTS.md: it is not UTF-8 (byte 5)",
        f"{nested}/AGENTS.override.md: it is not a regular file",
        f"{nested}/AGENTS.md: Too many levels of symbolic links",
        f"{nested}/third.md: it is not a regular file",
    )
    (project / "AGENTS.md").unlink()
    only_warnings = await loaded(reader, project)
    assert only_warnings.text == "" and only_warnings.sources == () and len(only_warnings.warnings) == 1


async def test_a_large_file_is_not_read_whole(project: Path) -> None:
    """Section 4.4. Lost: memory, and minutes on a slow connection, to a log of that name."""

    class Counting(LocalReader):
        limits: ClassVar[list[int]] = []

        async def read_at_most(self, path: str, limit: int) -> bytes:
            self.limits.append(limit)
            return await super().read_at_most(path, limit)

    with (project / "AGENTS.md").open("wb") as file:
        file.write(b"first\n")
        file.truncate(1 << 40)
    found = await loaded(Counting(), project, limit=100)
    assert Counting.limits == [101]
    assert found.text.startswith("first\n[1099511627770 of the 1099511627776 bytes of ")


async def test_a_character_at_the_bound_is_no_fault(reader: Reader, project: Path) -> None:
    (project / "AGENTS.md").write_text("ab\nää")
    found = await loaded(reader, project, limit=3)
    assert found.text.startswith("ab\n[4 of the 7") and found.warnings == ()


TEXTS = st.lists(st.text(st.sampled_from("ab\nä")).map(lambda text: text.encode()).filter(bytes.strip), max_size=5)


@given(TEXTS, st.integers(1, 40))
def test_any_budget(texts: list[bytes], limit: int) -> None:
    """The limit holds; no file gets anything that a nearer one has missed; all is told."""
    contents = [Content(f"/{number}", len(text), text[: limit + 1]) for number, text in enumerate(texts)]
    found = assembled(None, contents, limit)
    if not texts:
        assert found is None
        return
    assert found is not None and [each.path for each in found.sources] == [each.path for each in contents]
    assert sum(each.used for each in found.sources) <= limit
    left = limit
    for source, content in reversed([*zip(found.sources, contents, strict=True)]):
        text, used = fitted(content, left)
        assert used == source.used and text.encode().startswith(content.data[:used])
        assert (f"[{source.size - used} of the {source.size} bytes" in found.text) == (used < source.size)
        assert used == source.size or used == 0 or content.data[used - 1 : used] == b"\n"
        left -= used
