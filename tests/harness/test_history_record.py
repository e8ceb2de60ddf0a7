"""Lines of the history, and what a trim drops (sections 1.1, 1.4 and 1.6)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.history.record import Record, decode_record, dropped, encode_record, log_id

ID = "67e55044-10b1-426f-9247-bb680e5fe0c8"


@pytest.mark.parametrize(("text", "size"), [("hi", 82), ("a" * 200, 280), ("b" * 400, 480)])
def test_the_size_of_a_line(text: str, size: int) -> None:
    """Section 1.1."""
    assert len(encode_record(Record(ID, 1_700_000_000, text))) == size


def test_the_form_of_a_line() -> None:
    """Section 1.1. Lost: other programs that read the file."""
    line = encode_record(Record("t", 5, 'é 🎈 "\\/\n\x01 \ud83d'))
    assert line.decode() == '{"session_id":"t","ts":5,"text":"é 🎈 \\"\\\\/\\n\\u0001 \ufffd"}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"[]",
        b'{"session_id":"t","ts":1}',
        b'{"session_id":"t","text":"x"}',
        b'{"ts":1,"text":"x"}',
        b'{"session_id":1,"ts":1,"text":"x"}',
        b'{"session_id":null,"conversation_id":"t","ts":1,"text":"x"}',
        b'{"session_id":"t","ts":"1","text":"x"}',
        b'{"session_id":"t","ts":1.5,"text":"x"}',
        b'{"session_id":"t","ts":true,"text":"x"}',
        b'{"session_id":"t","ts":1,"text":null}',
        b'{"session_id":"t","ts":1,"text":"\xff"}',
        b'{"session_id":"t","ts":1,"text":"x"',
        b"[" * 100_000,
        b'{"session_id":"t","ts":1,"text":"x","more":' + b"[" * 100_000,
    ],
)
def test_malformed(line: bytes) -> None:
    """Section 1.1 and bad input. Lost: the history, to one line that somebody else wrote."""
    assert decode_record(line) is None


def test_what_is_accepted() -> None:
    """Section 1.1: the alias, and members that are unknown."""
    assert decode_record(b'{"conversation_id":"t","ts":1,"text":"x"}\n') == Record("t", 1, "x")
    assert decode_record(b'  {"text":"x","more":[{}],"ts":1,"session_id":"t"}') == Record("t", 1, "x")


@given(st.text(), st.integers(0, 2**40), st.text(st.characters(codec=None)))
def test_any_text_comes_back(session_id: str, ts: int, text: str) -> None:
    line = encode_record(Record(session_id, ts, text))
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert list(json.loads(line)) == ["session_id", "ts", "text"]
    found = decode_record(line)
    assert found is not None
    clean = "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)
    assert (found.ts, found.text) == (ts, clean)


@pytest.mark.parametrize(
    ("lengths", "limit", "expected"),
    [
        ([280, 280], 290, (1, 280)),
        ([280, 480, 480], 1100, (2, 480)),
        ([100, 100, 100], 250, (1, 200)),
        ([100, 100, 100], 300, (0, 300)),
        ([100, 100, 400], 450, (2, 400)),
        ([100, 5000], 1000, (1, 5000)),
        ([500], 100, (0, 500)),
        ([100] * 10, 1, (9, 100)),
        ([100] * 11, 1000, (3, 800)),
        ([100] * 11, 0, (0, 1100)),
        ([100] * 11, None, (0, 1100)),
        ([], 5, (0, 0)),
    ],
)
def test_what_a_trim_drops(lengths: list[int], limit: int | None, expected: tuple[int, int]) -> None:
    """Section 1.6."""
    assert dropped(lengths, limit) == expected


@given(st.lists(st.integers(1, 500), min_size=1), st.integers(1, 5000))
def test_any_trim(lengths: list[int], limit: int) -> None:
    """Section 1.6: the newest stays, the limit holds, and no more goes than has to."""
    lines, left = dropped(lengths, limit)
    assert left == sum(lengths[lines:]) and lines < len(lengths)
    assert left <= max(limit, lengths[-1])
    if lines:
        assert left + lengths[lines - 1] > max(1, limit * 4 // 5, lengths[-1])


def test_the_identity_of_a_log() -> None:
    """Section 1.4."""
    assert 1 <= log_id(1, 2, b"line") < 2**63
    assert log_id(1, 2, b"line") == log_id(1, 2, b"line\n")
    assert len({log_id(1, 2, b"a"), log_id(1, 2, b"b"), log_id(1, 3, b"a"), log_id(2, 2, b"a")}) == 4
    assert log_id(1, 2, b"a" * 4096 + b"b") == log_id(1, 2, b"a" * 4096 + b"c")
