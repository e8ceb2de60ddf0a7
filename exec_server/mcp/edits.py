"""One replacement in a text, and the diff of it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from exec_server.mcp.errors import ToolError

CONTEXT = 3
"""Lines of context in a diff, as diff -u has them."""
DIFF_CHARS = 20_000
"""The longest diff that is shown."""
SHOWN = 5
"""So many line numbers are named."""


class Edit(NamedTuple):
    """The new text, and what has changed."""

    text: str
    diff: str


def replaced(text: str, old: str, new: str, name: str) -> Edit:
    """Put `new` in the place of `old`, which must be there exactly once.

    Where the text has Windows line ends (CRLF) and `old` has none, those of `old` and `new` are taken for such. Raises
    ToolError, which says where what was meant may be.
    """
    if not old:
        raise ToolError("old_text is empty: give the text to replace, or use write_file to write all of the file.")
    if "\r\n" in text and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    if old == new:
        raise ToolError("old_text and new_text are the same: there is nothing to change.")
    start = text.find(old)
    if start < 0:
        raise ToolError(f"old_text is not in {name}.{_hint(text, old)} Read it again, and copy the text exactly.")
    second = text.find(old, start + 1)
    if second >= 0:
        lines = ", ".join(str(line_at(text, at)) for at in _places(text, old))
        raise ToolError(f"old_text is more than once in {name}, at lines {lines}: take more of the text around it.")
    return Edit(text[:start] + new + text[start + len(old) :], diff(text, start, old, new, name))


def line_at(text: str, at: int) -> int:
    """The number of the line with this character, from 1."""
    return text.count("\n", 0, at) + 1


def diff(text: str, start: int, old: str, new: str, name: str) -> str:
    """The change as a unified diff of one hunk."""
    first = text.rfind("\n", 0, start) + 1
    end = start + len(old)
    if end > first and text[end - 1 : end] == "\n" and (not new or new.endswith("\n")):
        last = end  # whole lines are replaced by whole lines
    else:
        last = (text.find("\n", end) + 1) or len(text)
    before = text[first:last]
    after = text[first:start] + new + text[end:last]
    head = _lines_before(text, first, CONTEXT)
    tail = _lines(text, last, CONTEXT)
    removed, added = _split(before), _split(after)
    at = line_at(text, first) - len(head)
    counts = [len(head) + len(changed) + len(tail) for changed in (removed, added)]
    hunk = f"@@ -{at},{counts[0]} +{at},{counts[1]} @@\n"
    lines = [*_marked(" ", head), *_marked("-", removed), *_marked("+", added), *_marked(" ", tail)]
    whole = f"--- {name}\n+++ {name}\n{hunk}{''.join(lines)}"
    return whole if len(whole) <= DIFF_CHARS else whole[:DIFF_CHARS] + "\n[… the rest of the diff is left out …]\n"


def _split(text: str) -> list[str]:
    r"""The lines with their ends; only \n ends one."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _lines_before(text: str, end: int, count: int) -> list[str]:
    start = end
    while start and count:
        start = text.rfind("\n", 0, start - 1) + 1
        count -= 1
    return _split(text[start:end])


def _lines(text: str, start: int, count: int) -> list[str]:
    found: list[str] = []
    while start < len(text) and len(found) < count:
        end = (text.find("\n", start) + 1) or len(text)
        found.append(text[start:end])
        start = end
    return found


def _marked(mark: str, lines: list[str]) -> list[str]:
    return [mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n" for line in lines]


def _places(text: str, old: str) -> list[int]:
    found: list[int] = []
    at = text.find(old)
    while at >= 0 and len(found) < SHOWN:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def _hint(text: str, old: str) -> str:
    """Where the first line of `old` is, if it differs in white space only."""
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")
    if not wanted:
        return ""
    near = [n for n, line in enumerate(text.split("\n"), 1) if line.strip() == wanted][:SHOWN]
    if not near:
        return ""
    return f" Its first line is, with other white space or another continuation, at line {', '.join(map(str, near))}."
