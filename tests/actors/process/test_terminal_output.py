"""What reaches the terminal that screens are rendered with (actors.process.terminal_output)."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.process.terminal_output import TerminalOutput

PRINTABLE = "[ [ [ ? > ! $ 1 25 99999 ; : P _ ] 0;t \\ ( 0 % #8 é ' text".encode().split()
CONTROLS = [b"\x1b", b"\x1b[", b"\x1b[?", b" ", b"\r", b"\n", b"\x07", b"\x0e", b"\x18", b"\xc2", b"\x9b", b"\xff"]
FINALS = [bytes((code,)) for code in range(0x40, 0x7F)]
pieces = st.sampled_from(CONTROLS) | st.sampled_from(PRINTABLE) | st.sampled_from(FINALS)
outputs = st.lists(pieces, max_size=40).map(b"".join)


@given(outputs, st.integers(0, 200))
def test_a_cut_changes_nothing(output: bytes, cut: int) -> None:
    """A read may end in the middle of a sequence; half of it would be shown as text."""
    halves = TerminalOutput()
    assert halves.known(output[:cut]) + halves.known(output[cut:]) == TerminalOutput().known(output)


@given(outputs, outputs)
def test_no_output_stops_the_rendering(first: bytes, second: bytes) -> None:
    """Agents would get an error for a program that prints one sequence more than the renderer knows."""
    screen = pyte.Screen(20, 5)
    stream, output = pyte.ByteStream(screen), TerminalOutput()
    for data in (first, second):
        stream.feed(output.known(data))
    assert len(screen.display) == 5


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"a\x1b[31mb", b"a\x1b[31mb"),
        (b"a\x1b[?25lb\x1b[?1049h", b"a\x1b[?25lb\x1b[?1049h"),
        (b"a\x1b[?4mb\x1b[>4;2mc\x1b[>c", b"abc"),
        (b"a\x1b[38:2::1:2:3mb\x1b[!pc\x1b[2 qd", b"abcd"),
        (b"a\x1bP+q436f\x1b\\b\x1b_x\x07c", b"abc"),
        (b"a\x1b[3;4;5Hb\x1b[2;2A", b"a\x1b[3;4Hb\x1b[2A"),
        (b"a\x1b[?\x1b\x1b[>m[?mb\xc2\x9b?m", b"a[?mb?m"),
        (b"a\x1b Fb\x1b(0c\x1b%Gd", b"ab\x1b(0c\x1b%Gd"),
        (b"a\x1b]0;title\x1b\\b\x1b7c\x1bMd", b"a\x1b]0;title\x07b\x1b7c\x1bMd"),
    ],
)
def test_what_is_not_understood_is_left_out(output: bytes, shown: bytes) -> None:
    assert TerminalOutput().known(output) == shown


def test_a_sequence_without_end_is_not_kept_for_ever() -> None:
    """Memory grows with what a child prints, if it never ends a sequence."""
    output = TerminalOutput()
    for _ in range(1000):
        output.known(b"\x1bP" + b"x" * 1000)
        output.known(b"\x07\x1b[" + b"1" * 1000)
        output.known(b"m\x1b]0;" + b"t" * 1000)
        output.known(b"t" * 1000 + b"\x18")
    assert len(output._rest) + len(output._string) < 3000
