"""Whether the output of a sandboxed command tells of a denial. Pure."""

from __future__ import annotations

from typing import Final

LAST: Final = 16384
"""Bytes at the end of the output that are looked at."""
_WORDS: Final = (
    b"operation not permitted",
    b"permission denied",
    b"read-only file system",
    b"seccomp",
    b"sandbox",
    b"landlock",
    b"failed to write file",
)


def tells_of_denial(exit_code: int, end_of_output: bytes) -> bool:
    """A guess, as upstream's: the command failed, and one of the texts that a denial prints is at the end of its
    output, in any case.
    """
    if not exit_code:
        return False
    text = end_of_output.lower()
    return any(word in text for word in _WORDS)
