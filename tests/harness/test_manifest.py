"""plugin.json as it is read, and the names of plugins (harness-spec 5.1, 5.2, 5.3)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exec_server import Environment
from harness import EnvironmentReader, LocalReader, Namespaces, PluginError, load_manifest
from harness.plugins.manifest import MAX_MANIFEST_BYTES, Interface, PluginManifest, parse_manifest
from harness.plugins.members import MAX_ITEMS
from harness.plugins.names import PluginId, normalised, parse_plugin_id, shown_name
from harness.reader import Reader
from protocol.plugin_files import is_segment

DEPTHS = b"[" * 100_000 + b"]" * 100_000


def manifest(**members: Any) -> PluginManifest:
    return parse_manifest(json.dumps(members).encode(), "folder")


# -- 5.1 names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("My Plugin", "my-plugin"),
        ("My--Plugin", "my-plugin"),
        (" a__b ", "a-b"),
        ("A.B/C", "a-b-c"),
        ("--x--", "x"),
        ("Ünïcode", "unicode"),
        ("İstanbul", "istanbul"),
        ("a" * 64, "a" * 64),
    ],
)
def test_a_name_is_made_of_what_was_typed(name: str, result: str) -> None:
    """5.1"""
    assert normalised(name) == result


@pytest.mark.parametrize(("name", "why"), [("!!!", "letter or digit"), ("プラグイン", "letter"), ("a" * 65, "65")])
def test_what_leaves_no_name(name: str, why: str) -> None:
    """5.1"""
    with pytest.raises(PluginError, match=why):
        normalised(name)


@given(st.text(max_size=80))
def test_a_name_is_a_segment_and_stays_one(name: str) -> None:
    """5.1: idempotent, so that a plugin made twice is the same plugin."""
    try:
        result = normalised(name)
    except PluginError:
        return
    assert is_segment(result) and normalised(result) == result


def test_ids_and_shown_names() -> None:
    """5.1"""
    assert shown_name("my-plugin-2x") == "My Plugin 2x"
    assert parse_plugin_id("a-b_1@team") == PluginId("a-b_1", "team")
    for bad in ("a", "@m", "a@", "a b@m", "a@b@c d", "a@m/n", "é@m"):
        with pytest.raises(PluginError):
            parse_plugin_id(bad)
    with pytest.raises(PluginError):
        parse_plugin_id("x@y@z")  # split at the last @: `x@y` is no segment


# -- 5.2 the manifest -----------------------------------------------------------------------------------------------


def test_a_manifest_with_all_there_is() -> None:
    """5.2"""
    found = manifest(
        name="sample",
        version=" 1.2.3-beta+7 ",
        description="d",
        author={"name": "A", "email": "a@b.c", "url": "https://a"},
        keywords=["x"],
        skills=["./more/", "./skills/"],
        hooks="./hooks.json",
        mcpServers={"s": {"command": "x"}},
        apps="./.app.json",
        interface={"displayName": "S", "defaultPrompt": "p", "screenshots": ["./assets/a.png"], "logo": "./l.png"},
        unknown={"a": 1},
    )
    assert (found.name, found.version, found.warnings) == ("sample", "1.2.3-beta+7", ())
    assert found.skills == ("more", "skills") and found.skill_folders == ("skills", "more")
    assert (found.hooks, found.mcp_servers, found.apps) == ("hooks.json", {"s": {"command": "x"}}, ".app.json")
    assert found.interface == Interface(
        display_name="S", default_prompt=("p",), screenshots=("assets/a.png",), logo="l.png"
    )


@pytest.mark.parametrize(
    ("value", "taken", "warnings"),
    [
        ("  Summarize   my inbox  ", ("Summarize my inbox",), 0),
        (
            [
                " Summarize my inbox ",
                123,
                "x" * 129,
                "   ",
                "Draft the reply  ",
                "Find   my next action",
                "Archive old mail",
            ],
            ("Summarize my inbox", "Draft the reply", "Find my next action"),
            4,
        ),
        ("x" * 128, ("x" * 128,), 0),
    ],
)
def test_prompts(value: object, taken: tuple[str, ...], warnings: int) -> None:
    """5.2: too long is left out, not shortened."""
    found = manifest(interface={"defaultPrompt": value})
    assert found.interface is not None and found.interface.default_prompt == taken
    assert len(found.warnings) == warnings


def test_an_interface_without_anything_usable_is_absent() -> None:
    """5.2"""
    found = manifest(interface={"defaultPrompt": {"text": "x"}, "logo": "/x"})
    assert found.interface is None
    assert [each.split(":")[0] for each in found.warnings] == ["interface.defaultPrompt", "interface.logo"]


@pytest.mark.parametrize("path", ["skills", "./", "/x", "./../x", "./a/../b", ""])
def test_a_path_that_leads_out_is_left_out(path: str) -> None:
    """5.2: a plugin that reads what its user did not give it."""
    found = manifest(skills=path, hooks=path, apps=path, mcpServers=path)
    assert (found.skills, found.hooks, found.apps, found.mcp_servers) == ((), None, None, None)
    assert len(found.warnings) == 4
    assert manifest(skills="./skills/").skills == ("skills",)


def test_a_wrong_type_costs_its_member_only() -> None:
    """5.2: one typing error made the whole plugin vanish."""
    found = manifest(name="a", version=1, keywords=["x", 2], author=[], skills=["./a", 5], interface="x", apps=True)
    assert (found.name, found.version, found.keywords, found.author) == ("a", None, ("x",), None)
    assert (found.skills, found.interface, found.apps) == (("a",), None, None)
    assert [each.split(":")[0] for each in found.warnings] == [
        "version",
        "author",
        "keywords[1]",
        "skills[1]",
        "apps",
        "interface",
    ]


def test_long_lists_and_texts_have_an_end() -> None:
    """Lost: a request for each of 100,000 paths, or a warning of a megabyte, for who reads what others have written."""
    found = manifest(skills=["./a"] * 10_000, keywords=[5] * 10_000, hooks="x" * 100_000, name="y z" * 10_000)
    assert len(found.skills) == MAX_ITEMS and len(found.warnings) == MAX_ITEMS + 4
    assert all(len(each) < 300 for each in found.warnings)
    assert len(manifest(interface={"defaultPrompt": [5] * 10_000}).warnings) == MAX_ITEMS + 1


def test_blank_is_absent() -> None:
    """5.2"""
    assert manifest(name="  ", version=" ", description=None).name == "folder"
    assert manifest(name="  ", version=" ").version is None


@pytest.mark.parametrize("data", [b"not json", b"[]", b'{"name":5}', b"\xff", DEPTHS, b'{"a":' + DEPTHS + b"}", b""])
def test_what_is_no_manifest(data: bytes) -> None:
    """5.2; JSON of 100,000 levels among that."""
    with pytest.raises(PluginError, match="no manifest"):
        parse_manifest(data, "folder")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
members = ("name", "version", "author", "keywords", "skills", "hooks", "mcpServers", "apps", "interface")
shown = ("displayName", "capabilities", "defaultPrompt", "screenshots", "logo")


@given(
    st.dictionaries(
        st.sampled_from(members), json_values | st.dictionaries(st.sampled_from(shown), json_values), max_size=6
    )
    | json_values
)
def test_any_json_is_a_manifest_or_a_reason(value: object) -> None:
    """5.2: never another exception."""
    try:
        found = parse_manifest(json.dumps(value).encode(), "folder")
    except PluginError:
        return
    assert found.name
    for path in (*found.skills, found.hooks, found.apps):
        assert path is None or (not path.startswith("/") and ".." not in path.split("/"))


@pytest.fixture(params=["local", "environment"])
async def reader(request: pytest.FixtureRequest) -> Any:
    if request.param == "local":
        yield LocalReader()
    else:
        async with Environment.create("local") as environment:
            yield EnvironmentReader(environment)


def plugin(folder: Path, text: str | bytes, place: str = ".codex-plugin") -> Path:
    (folder / place).mkdir(parents=True)
    data = text.encode() if isinstance(text, str) else text
    (folder / place / "plugin.json").write_bytes(data)
    return folder


@pytest.mark.anyio
async def test_a_link_may_not_lead_out(reader: Reader, tmp_path: Path) -> None:
    """5.2: a plugin from elsewhere that offers what is beside it as its own."""
    (tmp_path / "secret").mkdir()
    folder = plugin(
        tmp_path / "p",
        json.dumps(
            {
                "skills": ["./out/", "./in/", "./out/deeper/"],
                "hooks": "./hooks.json",
                "apps": "./missing.json",
                "interface": {"logo": "./out/logo.png", "displayName": "P"},
            }
        ),
    )
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "real").mkdir()
    (folder / "in").symlink_to("real")
    (folder / "hooks.json").symlink_to("hooks.json")
    loaded = await load_manifest(reader, str(folder))
    assert loaded.manifest is not None
    assert loaded.manifest.skills == ("in",) and loaded.manifest.apps == "missing.json"
    assert loaded.manifest.interface == Interface(display_name="P")
    assert loaded.manifest.hooks is None  # a loop leads nowhere
    assert len(loaded.warnings) == 4 and all("leads out" in each for each in loaded.warnings)


@pytest.mark.anyio
async def test_a_folder_reached_by_a_link_is_its_own(reader: Reader, tmp_path: Path) -> None:
    """5.2"""
    folder = plugin(tmp_path / "p", '{"skills":"./skills/"}')
    (folder / "skills").mkdir()
    (tmp_path / "link").symlink_to("p")
    loaded = await load_manifest(reader, str(tmp_path / "link"))
    assert loaded.manifest is not None and loaded.manifest.skills == ("skills",) and loaded.manifest.name == "link"


@pytest.mark.anyio
async def test_the_second_place(reader: Reader, tmp_path: Path) -> None:
    """5: an unusable first manifest does not fall back to it."""
    folder = plugin(tmp_path / "p", '{"name":"second"}', ".claude-plugin")
    loaded = await load_manifest(reader, str(folder))
    assert loaded.manifest is not None and loaded.manifest.name == "second"
    plugin(tmp_path / "p", "no", ".codex-plugin")
    loaded = await load_manifest(reader, str(folder))
    assert loaded.manifest is None and len(loaded.warnings) == 1


@pytest.mark.anyio
async def test_manifests_that_cannot_be_read(reader: Reader, tmp_path: Path) -> None:
    """5.2: a FIFO would hold the agent for ever, a large file would fill its memory."""
    for name in ("fifo", "large", "loop", "none"):
        (tmp_path / name / ".codex-plugin").mkdir(parents=True)
    os.mkfifo(tmp_path / "fifo" / ".codex-plugin" / "plugin.json")
    (tmp_path / "large" / ".codex-plugin" / "plugin.json").write_bytes(b" " * (MAX_MANIFEST_BYTES + 1))
    (tmp_path / "loop" / ".codex-plugin" / "plugin.json").symlink_to("plugin.json")
    warned = {name: (await load_manifest(reader, str(tmp_path / name))).warnings for name in os.listdir(tmp_path)}
    assert warned["none"] == warned["fifo"] == ()  # no file, so no manifest
    assert "more than" in warned["large"][0] and "links" in warned["loop"][0]


# -- 5.3 namespaces -------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_namespaces(reader: Reader, tmp_path: Path) -> None:
    """5.3"""
    sample = plugin(tmp_path / "plugins" / "sample", '{"name":"sample"}')
    skill = sample / "skills" / "search" / "SKILL.md"

    async def of(path: Path, stop_at: Path = tmp_path) -> str | None:
        return await Namespaces(reader).namespace(str(path), str(stop_at))

    assert await of(skill) == await of(sample) == "sample"
    for text in ("{}", '{"name":"  "}'):
        (sample / ".codex-plugin" / "plugin.json").write_text(text)
        assert await of(skill) == "sample"
    plugin(tmp_path, '{"name":"outer"}')
    for text in ('{"name":5}', "not json", '{"name":"a:b"}'):
        (sample / ".codex-plugin" / "plugin.json").write_text(text)
        assert await of(skill) == "outer"
        assert await of(skill, tmp_path / "plugins") is None
    (sample / ".codex-plugin" / "plugin.json").unlink()
    (sample / ".codex-plugin" / "plugin.json").mkdir()
    assert await of(skill) == "outer"
    plugin(sample / "skills", '{"name":"inner"}')
    assert await of(skill) == "inner"
    assert await of(tmp_path / "x", tmp_path / "plugins") is None


@pytest.mark.anyio
async def test_nothing_above_the_root_names_a_skill(tmp_path: Path) -> None:
    """5.3: whoever can write to /tmp would name every skill below it."""
    plugin(tmp_path, '{"name":"evil"}')
    (tmp_path / "project").mkdir()
    found = await Namespaces(LocalReader()).namespace(str(tmp_path / "project" / "s"), str(tmp_path / "project"))
    assert found is None


@pytest.mark.anyio
async def test_each_folder_is_looked_at_once(tmp_path: Path) -> None:
    """5.3: over a connection each look costs a round trip."""

    reads: list[str] = []

    class Counting(LocalReader, frozen=True):
        async def read_at_most(self, path: str, limit: int) -> bytes:
            reads.append(path)
            return await LocalReader.read_at_most(self, path, limit)

    plugin(tmp_path / "p", '{"name":"p"}')
    names = Namespaces(Counting())
    for number in range(100):
        assert await names.namespace(str(tmp_path / "p" / "skills" / str(number)), str(tmp_path)) == "p"
    assert len(reads) == 2 * 100 + 2 + 1  # each of the skills, `skills`, and `p`
    assert names.warnings == []
