"""Lines out of pieces that were cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exec_server.client.text import LineSplitter, LineTooLong

PIECES = st.lists(st.text("ab\n", max_size=6).map(str.encode))


@given(PIECES)
def test_lines_do_not_depend_on_the_pieces(pieces: list[bytes]) -> None:
    """Lost: a line that is cut in two, or two that are joined."""
    splitter, lines = LineSplitter(), []
    for piece in pieces:
        splitter.feed(piece)
        while (line := splitter.line(100)) is not None:
            lines.append(line)
    lines.append(splitter.last())
    assert [line for line in lines if line] == b"".join(pieces).splitlines(keepends=True)


@given(PIECES, st.integers(1, 4))
def test_no_line_is_longer_than_the_limit(pieces: list[bytes], limit: int) -> None:
    """Lost: memory, to a program that prints no line ends; and what comes after such a line."""
    splitter, lines, raised = LineSplitter(), [], 0
    for piece in pieces:
        splitter.feed(piece)
        while True:
            try:
                line = splitter.line(limit)
            except LineTooLong:
                raised += 1
                continue
            if line is None:
                break
            lines.append(line)
    whole = b"".join(pieces)
    assert all(len(line) <= limit + 1 for line in lines)
    assert sum(map(len, lines)) + len(splitter.last()) + raised * limit == len(whole)


def test_the_limit_is_inclusive() -> None:
    splitter = LineSplitter()
    splitter.feed(b"abc\nabcd\n")
    assert splitter.line(3) == b"abc\n"
    with pytest.raises(LineTooLong):
        splitter.line(3)
