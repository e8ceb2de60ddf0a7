"""Lines out of a stream, for any split of the stream."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from transport.framing.lines import LineFramer

LIMIT = 40

ends = st.sampled_from([b"\n", b"\r\n"])
contents = st.one_of(
    st.text(st.characters(exclude_characters="\n\r", exclude_categories=("Cs",)), max_size=12).map(str.encode),
    st.sampled_from([b"", b" ", b"\t \t", b"{}", b"a" * LIMIT, "€".encode() * 13, b'{"a":\r1}']),
)
bad_contents = st.sampled_from([b"\xff", b"\xc3", b"a" * (LIMIT + 1), "€".encode() * 14, b"a" * 500])
streams = st.lists(st.tuples(st.one_of(contents, contents, contents, bad_contents), ends), max_size=12)


def read(stream: bytes, cuts: list[int], rooms: list[int]) -> tuple[list[bytes], str | None]:
    reader, inbox = LineFramer(LIMIT), deque[bytes]()
    edges = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    counted = 0
    for a, b in pairwise(edges):
        counted += reader.read(stream[a:b], inbox, rooms[0])
        turn = 0
        while reader.stopped:
            turn += 1
            counted += reader.read(b"", inbox, max(1, rooms[turn % len(rooms)]))
    counted += reader.finish(inbox)
    assert counted == sum(map(len, inbox))
    return list(inbox), reader.failure


def expected(stream: bytes) -> tuple[list[bytes], str | None]:
    """The rule of docs/protocol.md, on the whole stream at once."""
    lines = []
    for line in stream.split(b"\n"):
        content = line.removesuffix(b"\r")
        if not content.strip():
            continue
        if len(content) > LIMIT:
            return lines, f"a line may have {LIMIT} bytes (max_message)"
        try:
            content.decode()
        except UnicodeDecodeError:
            return lines, "a line is not UTF-8"
        lines.append(content)
    return lines, None


@given(
    streams,
    st.booleans(),
    st.lists(st.integers(0, 700), max_size=20),
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
)
@example([(b"a" * LIMIT, b"\r\n")], False, list(range(60)), [1])
@example([(b"a" * LIMIT + b"\r", b"\r\n")], False, list(range(60)), [1])
@examples(120)
def test_any_split_gives_the_same_lines(
    parts: list[tuple[bytes, bytes]], open_end: bool, cuts: list[int], rooms: list[int]
) -> None:
    """What a client writes must not depend on how the pipe cuts it: no request lost, joined or torn."""
    stream = b"".join(content + end for content, end in parts)
    if open_end and parts:
        stream = stream.removesuffix(parts[-1][1])
    assert read(stream, cuts, rooms) == expected(stream)


@pytest.mark.parametrize("piece", [4096, 65536])
def test_a_large_line_in_pieces_takes_linear_time(piece: int) -> None:
    """A request of 64 MiB in pieces of a pipe's size must not cost a copy of all of it for each."""
    reader, inbox = LineFramer(), deque[bytes]()
    chunk = b"x" * piece
    started = process_time()
    for _ in range(16 * 1024 * 1024 // piece):
        reader.read(chunk, inbox, 100)
    quarter = process_time() - started
    started = process_time()
    for _ in range(48 * 1024 * 1024 // piece):
        reader.read(chunk, inbox, 100)
    rest = process_time() - started
    reader.read(b"\n", inbox, 100)
    assert [len(line) for line in inbox] == [64 * 1024 * 1024]
    assert rest < 12 * quarter + 0.2  # quadratic would be about 15 times, and seconds


def test_a_line_without_end_is_bounded() -> None:
    """A stream without a single newline stops at the limit instead of filling the memory."""
    reader, inbox = LineFramer(1000), deque[bytes]()
    for _ in range(12):
        reader.read(b"x" * 100, inbox, 100)
    assert reader.failure == "a line may have 1000 bytes (max_message)"
    assert reader.read(b"\n{}\n", inbox, 100) == 0
    assert not inbox


@pytest.mark.parametrize("piece", [1, 3000])
def test_a_blank_line_is_bounded_too_however_it_comes(piece: int) -> None:
    """Lost: the same answer to the same input, whatever the network does to it."""
    reader, inbox = LineFramer(1000), deque[bytes]()
    stream = b" " * 2000 + b"\n{}\n"
    for at in range(0, len(stream), piece):
        reader.read(stream[at : at + piece], inbox, 100)
    assert reader.failure == "a line may have 1000 bytes (max_message)"
    assert not inbox
