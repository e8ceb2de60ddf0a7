"""SKILL.md and the names of plugins, as server and agent read them (harness-spec 4.5, 5.1 to 5.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.plugin_files import namespace, relative_path
from protocol.skill_file import MAX_FRONT_MATTER_BYTES, SkillError, parse_skill, yaml_mapping


def skill(front: str, body: str = "Body.") -> bytes:
    return f"---\n{front}\n---\n{body}\n".encode()


def test_a_skill_without_a_name_has_that_of_its_folder() -> None:
    """4.5"""
    assert parse_skill(b"---\ndescription: search\n---", "search").name == "search"
    assert parse_skill(skill("name: '  '\ndescription: d"), "search").name == "search"
    assert parse_skill(b"---\r\nname: a\r\ndescription: d\r\n---\r\n", "f").name == "a"


def test_texts_are_one_line() -> None:
    """4.5: what is shown in a list would break it."""
    found = parse_skill(
        skill("name: a\ndescription: |\n  two\n   lines\nmetadata:\n  short-description: ' s  t '"), "f"
    )
    assert (found.description, found.short_description, found.warnings) == ("two lines", "s t", ())


def test_an_unquoted_colon_does_not_lose_the_skill() -> None:
    """4.5: the fault that most public collections have."""
    found = parse_skill(skill("name: a\ndescription: use: when needed"), "f")
    assert found.description == "use: when needed"
    assert len(found.warnings) == 1 and "quotes" in found.warnings[0]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"no front matter", "does not begin with a line `---`"),
        (b"", "does not begin with a line `---`"),
        (b"---\ndescription: d\n", "no line `---` ends its front matter"),
        (skill("x: " + "y" * MAX_FRONT_MATTER_BYTES), "no line `---` ends its front matter"),
        (skill("name: a"), "`description` is missing"),
        (skill(f"name: {65 * 'n'}\ndescription: d"), "65 characters, more than 64"),
        (skill(f"description: {1025 * 'd'}"), "1025 characters, more than 1024"),
        (skill("name: 5\ndescription: d"), "`name` has to be a text, not 5"),
        (skill("description: d\nmetadata: x"), "`metadata` has to be a mapping"),
        (skill("description: d\ndescription: e"), "`description` is there twice"),
        (skill("description: !!python/object/apply:os.system [x]"), "could not determine a constructor"),
        (skill("a: &a [x]\nb: [*a, *a]\ndescription: d"), "aliases are not allowed"),
        (skill("a: " + "[" * 30_000), "nested too deeply"),
        (skill("- a list"), "has to be a mapping"),
        (skill("? [a]\n: b"), "a key has to be a text"),
        (skill("d: 2020-13-45\ndescription: d"), "month"),
        (b"---\ndescription: \xff\n---\n", "not UTF-8"),
    ],
)
def test_what_makes_no_skill_is_told(data: bytes, why: str) -> None:
    """4.5: a skill that vanishes without a word, or a traceback for who has downloaded it."""
    with pytest.raises(SkillError, match=why):
        parse_skill(data, "f")


def test_only_the_front_matter_has_to_be_text() -> None:
    assert parse_skill(b"---\ndescription: d\n---\n\xff", "f").description == "d"


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_make_a_skill_or_a_reason(front: bytes, rest: bytes) -> None:
    """Lost: all skills, for one file."""
    try:
        found = parse_skill(b"---\n" + front + b"\n---\n" + rest, "folder")
    except SkillError as error:
        assert str(error)
    else:
        assert "\n" not in found.name + found.description


@given(st.text(max_size=200))
def test_any_text_is_a_mapping_or_a_reason(text: str) -> None:
    try:
        assert isinstance(yaml_mapping(text), dict)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize("text", ["skills", "./", "/x", "./../x", "./a/../b", "", ".//x", "./.", "./a\0b", "../x"])
def test_paths_that_could_lead_out(text: str) -> None:
    """5.2: a plugin that reads what its user did not give it."""
    with pytest.raises(ValueError):
        relative_path(text)


def test_a_path_below() -> None:
    """5.2"""
    assert relative_path("./skills/") == "skills"
    assert relative_path("./a/./b") == "a/b"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b'{"name":"sample"}', "sample"),
        (b"{}", "folder"),
        (b'{"name":"  "}', "folder"),
        (b'{"name":null}', "folder"),
        (b'{"name":5}', None),
        (b"not json", None),
        (b"[]", None),
        (b'{"name":"a:b"}', None),
        (b'{"name":"a b"}', None),
        (b"\xef\xbb\xbf{}", None),
        (b'{"name":"\xff"}', None),
        (b"[" * 100_000, None),
    ],
)
def test_the_namespace_of_a_manifest(data: bytes, name: str | None) -> None:
    """5.3"""
    if name is not None:
        assert namespace(data, "folder") == name
    else:
        with pytest.raises(ValueError):
            namespace(data, "folder")
