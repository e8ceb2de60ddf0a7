"""Text from elsewhere for a terminal or a log. Pure."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with escapes for what is not seen or moves others: control characters, bidirectional overrides,
    separators of lines, halves of surrogate pairs (`str.isprintable`).
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
