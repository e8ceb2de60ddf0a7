"""Mentions in a prompt (section 3)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.context.mentions import (
    Binding,
    Mention,
    MentionKind,
    decode_mentions,
    encode_mentions,
    find_mentions,
    kind_of_path,
    plugin_mentions,
)

LINK = re.compile(r"\[[$@][\w:-]+\][ \t\n\r\f]*\([^)]*\)", re.ASCII)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("app://figma", MentionKind.APP),
        ("mcp://server", MentionKind.MCP),
        ("plugin://sample@test", MentionKind.PLUGIN),
        ("skill://x", MentionKind.SKILL),
        ("/tmp/figma/SKILL.md", MentionKind.SKILL),
        ("C:\\skills\\figma\\skill.MD", MentionKind.SKILL),
        ("/tmp/SKILL.md.txt", MentionKind.OTHER),
        ("https://example.com", MentionKind.OTHER),
    ],
)
def test_kinds(path: str, kind: MentionKind) -> None:
    """Section 3.1."""
    assert kind_of_path(path) is kind


def test_find() -> None:
    """Section 3.3, the case of finding. Lost: a skill that the user asked for, or a turn with one that nobody wants."""
    text = "run $lint, not $PATH or a$b; $docs:api: see [$x] (skill://s/SKILL.md)"
    found = find_mentions(text)
    assert [(each.name, each.path) for each in found] == [
        ("lint", None),
        ("docs:api", None),
        ("x", "skill://s/SKILL.md"),
    ]
    assert [text[each.start : each.end] for each in found] == ["$lint", "$docs:api", "[$x] (skill://s/SKILL.md)"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[$x]()", ["x"]),
        ("[$x]( \t)", ["x"]),
        ("[$](p)", []),
        ("[$x](p", ["x"]),
        ("$figma:", ["figma"]),
        ("$a::b", ["a"]),
        ("$a:b:c", ["a:b:c"]),
        ("US$x a$b é$c _$d $$e \\$f", []),
        ("($a) $b-c_d.", ["a", "b-c_d"]),
        ("$path $Home $xdg_config_home $PATHS", ["PATHS"]),
        ("[$PATH](skill://x)", []),
        ("@sample [@sample](app://x) [@sample](plugin://sample@test)", ["sample"]),
        ("[$x](a b)c) $y", ["x", "y"]),
        ("", []),
    ],
)
def test_what_is_a_mention(text: str, names: list[str]) -> None:
    """Sections 3.1 and 3.2."""
    assert [each.name for each in find_mentions(text)] == names


def test_spans_and_sigils() -> None:
    assert find_mentions("é [@a]\n( plugin://a@m ) $b") == (
        Mention("a", "plugin://a@m", "@", 2, 23),
        Mention("b", None, "$", 24, 26),
    )


def test_plugins() -> None:
    """Section 3.2: explicit ones only, in the order of the plugins."""
    text = "$c [$b](plugin://b@m) [@a](plugin://a@m) [@a](plugin://a@m) [@x](plugin://x@m)"
    assert plugin_mentions(text, ["plugin://c@m", "app://d"], ["c@m", "b@m", "a@m", "d"]) == ("c@m", "a@m")


FIGMA = [
    ("figma", "app://figma-1"),
    ("sample", "plugin://sample@test"),
    ("figma", "/tmp/figma/SKILL.md"),
]


def test_decode() -> None:
    """Section 3.3."""
    text = "Use [$figma](app://figma-1), [$sample](plugin://sample@test), and [$figma](/tmp/figma/SKILL.md)."
    assert decode_mentions(text) == ("Use $figma, $sample, and $figma.", tuple(FIGMA))
    assert decode_mentions("Use [@sample](plugin://sample@test)") == (
        "Use $sample",
        (Binding("sample", "plugin://sample@test"),),
    )
    for same in ("[@figma](app://figma-1)", "[$x](https://example.com)", "[$PATH](skill://x)", "[x](app://y)", ""):
        assert decode_mentions(same) == (same, ())


def test_encode() -> None:
    """Section 3.3."""
    text = "$figma then $sample then $figma then $other"
    bindings = [("figma", "app://figma-app"), *FIGMA[1:]]
    assert encode_mentions(text, bindings) == (
        "[$figma](app://figma-app) then [$sample](plugin://sample@test) then [$figma](/tmp/figma/SKILL.md) then $other"
    )
    assert encode_mentions(text, []) == text
    assert encode_mentions("", bindings) == ""
    assert encode_mentions("$sample:search $sample", [("sample", "skill://s")]) == "$sample:search [$sample](skill://s)"


@pytest.mark.parametrize("path", ["skill://a)b", "skill://a\nb", " skill://a", "skill://a ", "/etc/passwd", "", "\n"])
def test_bindings_that_stay_plain(path: str) -> None:
    """Section 3.3, the rule. The binding is used up, and the next one is for the next mention."""
    assert encode_mentions("$x $x", [("x", path), ("x", "skill://b")]) == "$x [$x](skill://b)"
    assert encode_mentions("$HOME", [("HOME", "skill://b")]) == "$HOME"


PIECES = [
    "$a",
    "$b",
    "$a:b",
    "[$a]",
    "[$b](",
    "[@a](",
    "[@a]",
    "$PATH",
    "(",
    ")",
    "[",
    "]",
    " ",
    "\n",
    ":",
    "\\",
    "é",
    "app://",
]
PATHS = [
    "app://1",
    "mcp://(x",
    "plugin://a@m",
    "skill://s",
    "/x/SKILL.md",
    "x)",
    "other",
    " skill://s",
    "skill://[$a](",
]


@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12)
    .map("".join)
    .filter(lambda text: not LINK.search(text)),
    st.lists(st.tuples(st.sampled_from(["a", "b", "a:b", "PATH"]), st.sampled_from(PATHS)), max_size=6),
)
@example("[$b](app:// $a", [("a", "app://1")])
@example("[@b](plugin:// $a", [("a", "app://1")])
@example("[$b]( $a", [("b", "app://1"), ("a", "app://2")])
def test_encoded_and_decoded_it_is_the_same(text: str, bindings: list[tuple[str, str]]) -> None:
    """Section 3.3. Lost: a prompt that comes back from the history as another one."""
    encoded = encode_mentions(text, bindings)
    decoded, used = decode_mentions(encoded)
    assert decoded == text
    left = list(bindings)
    for each in used:
        left.remove(each)
    assert sum(1 + path.count("](") for _, path in used) == encoded.count("](") - text.count("](")


@given(st.text(st.sampled_from("[]$@()a: \n/:p")))
def test_any_text(text: str) -> None:
    """Spans are in order and apart; what is decoded twice is decoded once."""
    end = 0
    for each in find_mentions(text):
        assert end <= each.start < each.end <= len(text)
        end = each.end
    decode_mentions(text)


class Scanned(str):
    """A text that counts how many of its characters are searched for the end of a link."""

    scanned = 0

    def find(self, *arguments: Any) -> int:
        return self._counted(super().find(*arguments), *arguments)

    def index(self, *arguments: Any) -> int:
        return self._counted(super().index(*arguments), *arguments)

    def _counted(self, at: int, part: str, start: int = 0) -> int:
        self.scanned += (len(self) if at < 0 else at) - start
        return at


@pytest.mark.parametrize("text", ["[$x](" * 5000, "[$x]( " * 5000 + ")", "[$x]()" * 5000, "[$x](a)" * 5000])
def test_hostile_texts_are_read_once(text: str) -> None:
    """Lost: minutes of a turn, to a megabyte of brackets."""
    scanned = Scanned(text)
    find_mentions(scanned)
    assert scanned.scanned <= len(text)
    encode_mentions(scanned, [("x", "app://x")] * 10)
    decode_mentions(scanned)
    assert scanned.scanned <= 3 * len(text)
