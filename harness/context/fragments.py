"""Context fragments: texts that go into a conversation as messages of the user, and are recognised later as not the
user's own. Pure.

A fragment is a line with its start marker, a body, and its end marker. A body cannot end its fragment: an end marker in
it gets a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any
from xml.sax.saxutils import escape, quoteattr, unescape

import msgspec
from msgspec import Struct

_QUOTES = {"&quot;": '"', "&apos;": "'", "&#10;": "\n", "&#13;": "\r", "&#9;": "\t"}
_HOOK_PROMPT = re.compile(r"""\s*<hook_prompt hook_run_id=(?:"([^"<]*)"|'([^'<]*)')>([^<]*)</hook_prompt>\s*""")
_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029), " ")
_XML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class FragmentKind(Enum):
    """What a fragment tells a model."""

    INSTRUCTIONS = "instructions"
    SKILL = "skill"
    ENVIRONMENT = "environment"
    SHELL_COMMAND = "shellCommand"
    TURN_ABORTED = "turnAborted"
    SUBAGENT = "subagent"
    ADDITIONAL = "additional"
    EXTENSION = "extension"
    GOAL = "goal"
    HOOK_PROMPT = "hookPrompt"
    OWN = "own"
    """Of markers that a program has added."""


class Markers(Struct, frozen=True):
    """What fragments of a kind begin and end with. Raises ValueError for what would be found in any text, or could not
    be escaped in a body: an empty start, an end of less than two characters, or with a backslash as the second.
    """

    start: str
    end: str
    kind: FragmentKind = FragmentKind.OWN

    def __post_init__(self) -> None:
        if not self.start.strip() or not self.end.strip():
            raise ValueError(f"markers {self.start!r} and {self.end!r}: an empty one would be found in every text")
        if len(self.end) < 2 or self.end[1] == "\\":
            raise ValueError(f"marker {self.end!r} cannot be escaped in a body: it needs two characters, no backslash")

    def wrap(self, body: str) -> Fragment:
        """A fragment with this body."""
        return Fragment(self.kind, f"{self.start}\n{self.escaped(body)}\n{self.end}")

    def escaped(self, body: str) -> str:
        """The body without an end marker: a backslash is put behind the first character of each."""
        first, rest = re.escape(self.end[0]), re.escape(self.end[1:])
        return re.sub(f"{first}(?={rest})", lambda match: f"{match[0]}\\", body, flags=_ASCII_CASE)

    def match(self, text: str) -> bool:
        """Whether a text is such a fragment: by its ends, whatever their case and the white space around."""
        text = text.strip()
        first, last = text[: len(self.start)], text[-len(self.end) :]
        return _lower(first) == _lower(self.start) and _lower(last) == _lower(self.end)


class Fragment(Struct, frozen=True):
    """A text for a model, and what it is."""

    kind: FragmentKind
    text: str

    @property
    def item(self) -> dict[str, Any]:
        """It as a content item of a message."""
        return {"type": "input_text", "text": self.text}


_ASCII_CASE = re.IGNORECASE | re.ASCII
INSTRUCTIONS = Markers("# AGENTS.md instructions for ", "</INSTRUCTIONS>", FragmentKind.INSTRUCTIONS)
SKILL = Markers("<skill>", "</skill>", FragmentKind.SKILL)
ENVIRONMENT = Markers("<environment_context>", "</environment_context>", FragmentKind.ENVIRONMENT)
SHELL_COMMAND = Markers("<user_shell_command>", "</user_shell_command>", FragmentKind.SHELL_COMMAND)
TURN_ABORTED = Markers("<turn_aborted>", "</turn_aborted>", FragmentKind.TURN_ABORTED)
SUBAGENT = Markers("<subagent_notification>", "</subagent_notification>", FragmentKind.SUBAGENT)
ADDITIONAL = Markers("<additional_context>", "</additional_context>", FragmentKind.ADDITIONAL)
EXTENSION = Markers("<extension_context>", "</extension_context>", FragmentKind.EXTENSION)
GOAL = Markers("<goal_context>", "</goal_context>", FragmentKind.GOAL)
MARKERS = (
    INSTRUCTIONS,
    SKILL,
    ENVIRONMENT,
    SHELL_COMMAND,
    TURN_ABORTED,
    SUBAGENT,
    ADDITIONAL,
    EXTENSION,
    GOAL,
)


def instructions_fragment(directory: str, text: str) -> Fragment:
    """What AGENTS.md files say for a folder."""
    head = f"{INSTRUCTIONS.start}{_one_line(directory)}"
    return Fragment(INSTRUCTIONS.kind, f"{head}\n\n<INSTRUCTIONS>\n{INSTRUCTIONS.escaped(text)}\n{INSTRUCTIONS.end}")


def skill_fragment(name: str, path: str, contents: str) -> Fragment:
    """A skill that was chosen, with the text of its SKILL.md."""
    head = f"<name>{_tag_text(name)}</name>\n<path>{_tag_text(path)}</path>"
    return SKILL.wrap(f"{head}\n{contents}")


def shell_command_fragment(command: str, exit_code: int, seconds: float, output: str) -> Fragment:
    """A command that the user ran, and its output."""
    result = f"Exit code: {exit_code}\nDuration: {seconds:.4f} seconds\nOutput:\n{output}"
    return SHELL_COMMAND.wrap(f"<command>\n{command}\n</command>\n<result>\n{result}\n</result>")


def environment_fragment(values: Mapping[str, str]) -> Fragment:
    """Facts about the machine, `cwd`, `shell` and the like: an XML element each. Raises ValueError for a name that
    cannot be one of an element.
    """
    for name in values:
        if not _XML_NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of an element")
    return ENVIRONMENT.wrap("\n".join(f"<{name}>{escape(value)}</{name}>" for name, value in values.items()))


def turn_aborted_fragment(text: str) -> Fragment:
    """A turn that was interrupted, in words for the model."""
    return TURN_ABORTED.wrap(text)


def subagent_fragment(agent_path: str, status: Any) -> Fragment:
    """Word from another agent; `status` is a JSON value."""
    return SUBAGENT.wrap(msgspec.json.encode({"agent_path": agent_path, "status": status}).decode())


def hook_prompt_fragment(text: str, hook_run_id: str) -> Fragment:
    """What a hook wants to be said to the model. Raises ValueError for a blank id."""
    if not hook_run_id.strip():
        raise ValueError("a hook prompt needs the id of its run")
    element = f"<hook_prompt hook_run_id={quoteattr(hook_run_id)}>{escape(text)}</hook_prompt>"
    return Fragment(FragmentKind.HOOK_PROMPT, element)


class HookPrompt(Struct, frozen=True):
    """What a hook said, and in which run."""

    text: str
    hook_run_id: str


def hook_prompt(text: str) -> HookPrompt | None:
    """The hook prompt that a text is; None if it is none."""
    match = _HOOK_PROMPT.fullmatch(text)
    if match is None:
        return None
    run_id = unescape(match[2] if match[1] is None else match[1], _QUOTES)
    return HookPrompt(unescape(match[3]), run_id) if run_id.strip() else None


def message(fragments: Iterable[Fragment | str]) -> dict[str, Any]:
    """A message of the user's role, with a content item each."""
    items = [each.item if isinstance(each, Fragment) else {"type": "input_text", "text": each} for each in fragments]
    return {"type": "message", "role": "user", "content": items}


class Recognizer:
    """Tells fragments by their text, in conversations that are read back from elsewhere; who made a Fragment knows its
    kind. `further` are markers of one's own.
    """

    def __init__(self, further: Sequence[Markers] = ()) -> None:
        self._markers = (*MARKERS, *further)

    def kind(self, text: str) -> FragmentKind | None:
        """What a text is; None for words of the user."""
        if hook_prompt(text) is not None:
            return FragmentKind.HOOK_PROMPT
        return next((each.kind for each in self._markers if each.match(text)), None)

    def is_context(self, item: Any) -> bool:
        """Whether a content item is a fragment."""
        text = _text_of(item)
        return text is not None and self.kind(text) is not None

    def hook_prompts(self, found: Any) -> list[HookPrompt] | None:
        """The hook prompts of a message, in order. None if it has none, or has anything else than fragments."""
        content = found.get("content") if isinstance(found, dict) else None
        if not isinstance(content, list) or not all(map(self.is_context, content)):
            return None
        prompts = [prompt for item in content if (prompt := hook_prompt(_text_of(item) or ""))]
        return prompts or None


def _text_of(item: Any) -> str | None:
    """The text of a content item; None for a picture, and for what is no item."""
    if not isinstance(item, dict) or item.get("type") != "input_text":
        return None
    text = item.get("text")
    return text if isinstance(text, str) else None


def _lower(text: str) -> str:
    """In small letters, of ASCII only: others would change the length."""
    return "".join(chr(ord(each) + 32) if "A" <= each <= "Z" else each for each in text)


def _one_line(text: str) -> str:
    return text.translate(_CONTROLS)


def _tag_text(text: str) -> str:
    return _one_line(text).replace("<", "&lt;")
