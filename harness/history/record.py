"""A record of the message history, its line in `history.jsonl`, and the rules of the file. Pure.

A line is `{"session_id":"…","ts":…,"text":"…"}` and `\\n`: UTF-8, no spaces, nothing but control characters, `"` and
`\\` escaped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

MAX_LINE_BYTES = 16 << 20
"""A longer line is malformed, whatever is in it."""
IDENTITY_BYTES = 4096
"""So much of the first line tells a log from others."""
BLANKS = b" \t"
"""What may be before a first line: JSON allows white space there."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Record(Struct, frozen=True):
    """A prompt: the thread that it was for, when, in seconds since 1970, and its text."""

    session_id: str
    ts: int
    text: str


class _Line(Struct):
    """A line as programs have written it; members that are unknown are ignored."""

    ts: int
    text: str
    session_id: str | UnsetType = UNSET
    conversation_id: str | UnsetType = UNSET


_DECODER = msgspec.json.Decoder(_Line)


def encode_record(record: Record) -> bytes:
    """The line of a record, with its `\\n`. Lone surrogates become U+FFFD."""
    whole = Record(_without_surrogates(record.session_id), record.ts, _without_surrogates(record.text))
    return msgspec.json.encode(whole) + b"\n"


def decode_record(line: bytes) -> Record | None:
    """The record of a line, with or without its `\\n`; None if it is malformed."""
    try:
        found = _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    session_id = found.conversation_id if found.session_id is UNSET else found.session_id
    return None if session_id is UNSET else Record(session_id, found.ts, found.text)


def dropped(lengths: Sequence[int], max_bytes: int | None) -> tuple[int, int]:
    """What a trim does to lines of these lengths: how many it drops from the front, and how many bytes it leaves.

    Nothing is dropped up to `max_bytes`; None and 0 are no limit. Beyond, so much that four fifths of it are left, and
    the newest line in any case.
    """
    total = sum(lengths)
    if not exceeds(total, max_bytes):
        return 0, total
    return drop(lengths, total, lengths[-1], max_bytes or 0)


def exceeds(total: int, max_bytes: int | None) -> bool:
    """Whether a file of `total` bytes is to be trimmed."""
    return bool(max_bytes) and total > (max_bytes or 0)


def drop(lengths: Iterable[int], total: int, newest: int, max_bytes: int) -> tuple[int, int]:
    """The same for lines that make `total` bytes, the last one `newest`; no more of `lengths` is taken than needed."""
    target = max(1, max_bytes * 4 // 5, newest)
    lines, left = 0, total
    for length in lengths:
        if left <= target or left == length:
            break
        left -= length
        lines += 1
    return lines, left


def log_id(device: int, inode: int, first_line: bytes) -> int:
    """The identity of a log: 1 or more, below 2**63. Another one as soon as its first line is another, so offsets of
    one log_id name the same records for ever.
    """
    head = identity_of(first_line)
    digest = hashlib.sha256(b"%d %d " % (device, inode) + head).digest()
    return (int.from_bytes(digest[:8], "big") & (1 << 63) - 1) or 1


def identity_of(first_line: bytes) -> bytes:
    """What of a first line counts."""
    return first_line.removesuffix(b"\n")[:IDENTITY_BYTES]


def _without_surrogates(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)
