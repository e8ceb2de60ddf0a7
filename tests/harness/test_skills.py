"""Skills: found here and behind a server, and chosen for a message (sections 4.5, 5.3 and 3.2)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import Namespaces
from harness.context.skills import (
    MAX_BODY_BYTES,
    Skill,
    SkillRoot,
    Skills,
    load_skills,
    project_skill_roots,
    read_skill,
    select_skills,
    skill_fragment_of,
)
from harness.reader import LocalReader, Reader

pytestmark = pytest.mark.anyio


def put(folder: Path, front: str = "description: what it is for", body: str = "Body.\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "SKILL.md"
    path.write_text(f"---\n{front}\n---\n{body}")
    return path


async def found(reader: Reader, *roots: Path, namespaces: bool = True) -> Skills:
    return await load_skills(
        [SkillRoot(str(root), "repo", reader) for root in roots], Namespaces if namespaces else None
    )


def names(skills: Skills) -> list[str]:
    return [skill.name for skill in skills.skills]


async def test_what_a_skill_is(reader: Reader, tmp_path: Path) -> None:
    """Section 4.5."""
    path = put(tmp_path / "search", "description: search\nmetadata:\n  short-description: ' s '")
    (only,) = (await found(reader, tmp_path)).skills
    assert only == Skill("search", "search", "s", str(path), "repo", reader)
    assert (await found(reader, tmp_path / "search")).skills == (only,)


async def test_errors_and_warnings(reader: Reader, tmp_path: Path) -> None:
    """Section 4.5. Lost: a skill that vanishes, and nobody says why."""
    put(tmp_path / "colon", "description: use: when needed")
    put(tmp_path / "long", f"name: {65 * 'n'}\ndescription: d")
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "SKILL.md").write_text("# no front matter")
    skills = await found(reader, tmp_path)
    assert names(skills) == ["colon"]
    assert skills.skills[0].description == "use: when needed"
    assert len(skills.warnings) == 1 and skills.warnings[0].startswith(f"{tmp_path}/colon/SKILL.md: ")
    assert [error.partition(": ")[0] for error in skills.errors] == [
        f"{tmp_path}/{x}/SKILL.md" for x in ("long", "none")
    ]
    assert "65 characters" in skills.errors[0] and "---" in skills.errors[1]
    system = await load_skills([SkillRoot(str(tmp_path), "system", reader)])
    assert names(system) == ["colon"] and system.errors == system.warnings == ()


async def test_bad_files(reader: Reader, tmp_path: Path) -> None:
    """Bad input."""
    for name in ("fifo", "folder", "loop", "binary", "good"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo" / "SKILL.md")
    (tmp_path / "folder" / "SKILL.md").mkdir()
    (tmp_path / "loop" / "SKILL.md").symlink_to("SKILL.md")
    (tmp_path / "binary" / "SKILL.md").write_bytes(b"---\ndescription: \xff\n---\n")
    put(tmp_path / "good")
    skills = await found(reader, tmp_path)
    assert names(skills) == ["good"]
    assert sorted(skills.errors) == [
        f"{tmp_path}/binary/SKILL.md: its front matter is not UTF-8",
        f"{tmp_path}/fifo/SKILL.md: it is not a regular file",
        f"{tmp_path}/folder/SKILL.md: it is not a regular file",
        f"{tmp_path}/loop/SKILL.md: Too many levels of symbolic links",
    ]
    assert await found(reader, tmp_path / "not-there") == Skills()
    assert (await found(reader, tmp_path / "good" / "SKILL.md")).skills == ()


async def test_links(reader: Reader, tmp_path: Path) -> None:
    """Section 4.5. Linked folders are followed, wherever they lead; linked files stay in the root."""
    root = tmp_path / "root"
    put(tmp_path / "elsewhere" / "far")
    put(root / "real", "name: real\ndescription: d")
    (root / "z-again").symlink_to("real")
    (root / "far").symlink_to(tmp_path / "elsewhere" / "far")
    (root / "shared.md").write_text("---\nname: shared\ndescription: d\n---\n")
    (root / "linked").mkdir()
    (root / "linked" / "SKILL.md").symlink_to("../shared.md")
    (root / "out").mkdir()
    (root / "out" / "SKILL.md").symlink_to(tmp_path / "elsewhere" / "far" / "SKILL.md")
    (root / "broken").mkdir()
    (root / "broken" / "SKILL.md").symlink_to("nowhere")
    skills = await found(reader, root)
    assert names(skills) == ["far", "real", "shared"]
    assert skills.errors == (f"{root}/out/SKILL.md: it is a link that leads out of {root}",)


async def test_how_far_it_is_looked(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 4.5: six folders deep, none that is hidden, and so many folders."""
    deep = tmp_path
    for number in range(1, 8):
        deep = deep / f"d{number}"
        put(deep)
    put(tmp_path / ".hidden")
    put(tmp_path / "d1" / ".hidden" / "inside")
    assert names(await found(reader, tmp_path)) == ["d1", "d2", "d3", "d4", "d5", "d6"]
    monkeypatch.setattr("harness.context.skills.MAX_FOLDERS", 3)
    skills = await found(reader, tmp_path)
    assert names(skills) == ["d1", "d2"]
    assert len(skills.warnings) == 1 and "more than 3 folders" in skills.warnings[0]


async def test_roots_and_order(reader: Reader, tmp_path: Path) -> None:
    """Section 4.5: repo, user, system, admin; then the name; then the path. The same file twice is the first."""
    project = tmp_path / "project"
    nested = project / "nested"
    (project / ".git").mkdir(parents=True)
    put(nested / ".agents/skills/b")
    put(project / ".agents/skills/b")
    put(project / ".agents/skills/a")
    for scope in ("admin", "system", "user"):
        put(tmp_path / scope / f"a-{scope}")
    (tmp_path / "user" / "again").symlink_to(project / ".agents/skills/a")
    roots = await project_skill_roots(reader, str(nested))
    assert [root.path for root in roots] == [f"{project}/.agents/skills", f"{nested}/.agents/skills"]
    more = [SkillRoot(str(tmp_path / scope), scope, reader) for scope in ("admin", "system", "user")]  # type: ignore[arg-type]
    skills = await load_skills([*roots, *more])
    assert names(skills) == ["a", "b", "b", "a-user", "a-system", "a-admin"]
    assert [skill.path for skill in skills.skills[1:3]] == sorted(skill.path for skill in skills.skills[1:3])


async def test_the_same_disk_has_the_same_files(tmp_path: Path) -> None:
    """Lost: a name that two skills have, and so none, where two parts of a program read this disk."""
    put(tmp_path / "a")
    roots = [SkillRoot(str(tmp_path), "repo", LocalReader()), SkillRoot(f"{tmp_path}/", "user", LocalReader())]
    (only,) = (await load_skills(roots, Namespaces)).skills
    assert only.scope == "repo"


async def test_skills_of_plugins(reader: Reader, tmp_path: Path) -> None:
    """Sections 4.5 and 5.3. The name is counted without that of the plugin."""
    sample = tmp_path / "plugins" / "sample"
    put(sample / "skills" / "search", f"name: {64 * 's'}\ndescription: d")
    inner = sample / "skills" / "inner"
    put(inner / "deep" / "deeper")
    put(tmp_path / "plugins" / "none" / "skills" / "x")
    for folder, text in ((sample, '{"name":"sample"}'), (inner, "{}"), (inner / "deep", '{"name":5}')):
        (folder / ".codex-plugin").mkdir(parents=True)
        (folder / ".codex-plugin" / "plugin.json").write_text(text)
    assert names(await found(reader, tmp_path)) == ["inner:deeper", f"sample:{64 * 's'}", "x"]
    assert names(await found(reader, tmp_path, namespaces=False)) == ["deeper", 64 * "s", "x"]
    above = SkillRoot(f"{sample}/skills/", "repo", reader, str(tmp_path))
    assert names(await load_skills([above], Namespaces)) == ["inner:deeper", f"sample:{64 * 's'}"]
    alone = SkillRoot(f"{sample}/skills", "repo", reader)
    assert names(await load_skills([alone], Namespaces)) == ["inner:deeper", 64 * "s"]


async def test_the_text_of_a_skill(reader: Reader, tmp_path: Path) -> None:
    """Section 4.5: at most 256 KiB, and what is missing is told."""
    path = put(tmp_path / "small", body="Do </skill> this.\n")
    put(tmp_path / "large", body="0123456\n" * 40_000)
    large, small = (await found(reader, tmp_path)).skills
    fragment = await skill_fragment_of(small)
    escaped = path.read_text().replace("</skill>", "<\\/skill>")
    assert fragment.text == f"<skill>\n<name>small</name>\n<path>{path}</path>\n{escaped}\n</skill>"
    body = await read_skill(large)
    size = os.path.getsize(large.path)
    kept, _, note = body.text.rpartition("\n")
    assert len(kept) < MAX_BODY_BYTES and kept.endswith("0123456")
    assert note.startswith(f"[{body.missing_bytes} of the {size} bytes of {large.path} are left out")
    assert len(kept) + 1 + body.missing_bytes == size


def skill(name: str, path: str) -> Skill:
    return Skill(name, "", None, path, "repo", LocalReader())


def test_skills_of_a_message() -> None:
    """Section 3.2. Lost: the skill that was asked for, or a turn with one that was not."""
    lint, api, one, other = (
        skill("lint", "/s/lint/SKILL.md"),
        skill("docs:api", "/s/api/SKILL.md"),
        skill("twice", "/s/1/SKILL.md"),
        skill("twice", "/s/2/SKILL.md"),
    )
    skills = [lint, api, one, other]

    def chosen(text: str, **more: object) -> list[Skill]:
        return [*select_skills(skills, text, **more)]  # type: ignore[arg-type]

    assert chosen("$docs:api then $lint: $lint") == [lint, api]
    assert chosen("$twice") == []
    assert chosen("[$twice](skill:///s/2/SKILL.md) $lint") == [other, lint]
    assert chosen("[$x](/s/1/SKILL.md)") == [one]
    assert chosen("$lint", apps=["lint"]) == []
    assert chosen("$docs $api $docs:") == []
    assert chosen("[$lint](app://lint) [$lint](mcp://x) [$lint](plugin://lint@m)") == []
    assert chosen("[$lint](https://example.com)") == [lint]
    assert chosen("$lint $docs:api", structured=[("twice", "/s/2/SKILL.md"), ("lint", "/gone/SKILL.md")]) == [
        other,
        api,
    ]
    assert chosen("$lint", structured=[("lint", "skill:///s/lint/SKILL.md")]) == [lint]
    assert chosen("") == []
