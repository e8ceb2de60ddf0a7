"""Mentions in a prompt: `$name` of a tool or skill, and links, `[$name](path)` and `[@name](plugin://…)`. Pure."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Literal, NamedTuple

ENVIRONMENT_NAMES = frozenset(
    {"PATH", "HOME", "USER", "SHELL", "PWD", "TMPDIR", "TEMP", "TMP", "LANG", "TERM", "XDG_CONFIG_HOME"}
)
"""Variables that people write about: no mentions, in whatever case."""
_NAME = r"[A-Za-z0-9_-]+(?::[A-Za-z0-9_-]+)*"
_TOKEN = re.compile(rf"\[(?P<sigil>[$@])(?P<linked>{_NAME})\][ \t\n\r\f]*\(|\$(?P<plain>{_NAME})")
_SCHEMES = ("app", "mcp", "plugin", "skill")
Sigil = Literal["$", "@"]


class MentionKind(Enum):
    """What a path leads to."""

    APP = "app"
    MCP = "mcp"
    PLUGIN = "plugin"
    SKILL = "skill"
    OTHER = "other"


class Binding(NamedTuple):
    """A name and what it stands for."""

    name: str
    path: str


class Mention(NamedTuple):
    """A mention, and where it is: `text[start:end]`, a link with its path. `path` is None for a plain `$name`."""

    name: str
    path: str | None
    sigil: Sigil
    start: int
    end: int


class _Token(NamedTuple):
    """A link, or a plain name. `in_open_link`: the name is that of a link whose path is not closed."""

    mention: Mention
    in_open_link: bool = False


def kind_of_path(path: str) -> MentionKind:
    """By its scheme; a file of the name SKILL.md, in whatever case, is a skill."""
    for scheme in _SCHEMES:
        if path.startswith(f"{scheme}://"):
            return MentionKind(scheme)
    last = re.split(r"[/\\]", path)[-1]
    return MentionKind.SKILL if last.upper() == "SKILL.MD" else MentionKind.OTHER


def find_mentions(text: str) -> tuple[Mention, ...]:
    """All mentions, in order. A link counts as one, `[@name](…)` for plugins only; names of environment variables are
    none.
    """
    return tuple(token.mention for token in _tokens(text) if _counts(token.mention))


def plugin_mentions(text: str, structured: Iterable[str] = (), plugins: Iterable[str] = ()) -> tuple[str, ...]:
    """Of the ids `plugins`, `name@marketplace`, those that are mentioned explicitly: in `structured`, paths that came
    beside the text, or by a link with `@`. In the order of `plugins`, each once.
    """
    links = (mention.path or "" for mention in find_mentions(text) if mention.sigil == "@")
    named = {path.removeprefix("plugin://") for path in (*structured, *links) if path.startswith("plugin://")}
    return tuple(dict.fromkeys(each for each in plugins if each in named))


def encode_mentions(text: str, bindings: Iterable[tuple[str, str]]) -> str:
    """A prompt as the history keeps it: each `$name` becomes a link to the next path that `bindings` have for the name.
    It stays plain where `decode_mentions` could not give the same back.
    """
    paths: defaultdict[str, deque[str]] = defaultdict(deque)
    for name, bound in bindings:
        paths[name].append(bound)
    parts: list[str] = []
    done = 0
    for mention, in_open_link in _tokens(text) if paths else ():
        is_plain = mention.path is None and mention.sigil == "$"
        path = paths[mention.name].popleft() if is_plain and paths[mention.name] else None
        if path is not None and _can_be_encoded(mention.name, path):
            parts += text[done : mention.start], f"[${mention.name}]({path})"
            done = mention.end
        elif in_open_link:
            break  # the end of a later link would become the end of this one
    return "".join((*parts, text[done:]))


def decode_mentions(text: str) -> tuple[str, tuple[Binding, ...]]:
    """A prompt of the history as the user wrote it, with `$name` for links, and what these led to, in order."""
    parts: list[str] = []
    bindings: list[Binding] = []
    done = 0
    for mention in find_mentions(text):
        if mention.path is not None and kind_of_path(mention.path) is not MentionKind.OTHER:
            parts += text[done : mention.start], f"${mention.name}"
            done = mention.end
            bindings.append(Binding(mention.name, mention.path))
    return "".join((*parts, text[done:])), tuple(bindings)


def _counts(mention: Mention) -> bool:
    if mention.name.upper() in ENVIRONMENT_NAMES:
        return False
    return mention.sigil == "$" or (mention.path or "").startswith("plugin://")


def _can_be_encoded(name: str, path: str) -> bool:
    return (
        ")" not in path
        and path == path.strip()
        and len(path.splitlines()) == 1
        and kind_of_path(path) is not MentionKind.OTHER
        and name.upper() not in ENVIRONMENT_NAMES
    )


def _tokens(text: str) -> Iterator[_Token]:
    """Links and plain names, from left to right, whatever they mean."""
    last_end = text.rfind(")")
    position = 0
    while match := _TOKEN.search(text, position):
        position = match.end()
        if match["plain"] is not None:
            if _may_begin(text, match.start()):
                yield _Token(Mention(match["plain"], None, "$", match.start(), match.end()))
            continue
        sigil: Sigil = "$" if match["sigil"] == "$" else "@"
        is_open = match.end() > last_end
        end = match.end() if is_open else text.index(")", match.end())
        path = text[match.end() : end].strip()
        if path:
            yield _Token(Mention(match["linked"], path, sigil, match.start(), end + 1))
            position = end + 1
        else:
            position = match.end("linked")
            if sigil == "$" or is_open:
                yield _Token(Mention(match["linked"], None, sigil, match.start("sigil"), position), is_open)


def _may_begin(text: str, at: int) -> bool:
    before = text[at - 1] if at else " "
    return not (before.isalnum() or before in "_$\\")
