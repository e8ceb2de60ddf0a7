"""What a program may print so that the screen of its terminal, or of another, cannot be had."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.process import screen, screen_program
from actors.process.renderer import Renderers
from actors.process.screen_messages import Order, ShownScreen
from actors.process.screen_program import carry_out
from actors.process.terminal_screen import MOST_BEHIND, MOST_COMBINING, TerminalScreen
from protocol.errors import Busy
from tests.support.client import Client, Process, connected, expect_error, session
from tests.support.program import Program, eventually, program

pytestmark = pytest.mark.anyio

ALIGN = b"\x1b#8"


@pytest.fixture(scope="module")
def server() -> Iterator[Program]:
    with program() as running:
        yield running


def screen_of(output: bytes, rows: int = 24, cols: int = 80) -> ShownScreen:
    shown = TerminalScreen(rows, cols)
    shown.take([output], rows, cols)
    shown.catch_up()
    return shown.shown()


async def shown(process: Process) -> dict[str, Any]:
    return await process.client.call("process/screen", processId=process.id)


@asynccontextmanager
async def printing(client: Client, path: Path, output: bytes, **more: Any) -> AsyncIterator[Process]:
    """A terminal on which a program has printed this."""
    path.write_bytes(output)
    script = 'stty raw -echo; cat "$0"; printf done; exec sleep 1000'
    process = await client.start(str(path), "/bin/sh", "-c", script, str(path), tty=True, **more)
    await process.shows(b"done")
    yield process
    await process.terminate()


SLOW = {
    "alignment": (ALIGN * 300_000, {}),
    "alignment with margins and tabs": ((b"\x1b[5;20r" + b"\t" * 10 + ALIGN) * 20_000, {}),
    "a large screen": ((ALIGN + b"\x1b[2J") * 1000, {"rows": 500, "cols": 500}),
    "insertion into a long row": (b"\x1b[4h" + b"\x1b[H" + b"x" * 500_000, {"rows": 1, "cols": 60_000}),
}


@pytest.mark.parametrize("kind", SLOW)
async def test_a_slow_screen_has_its_time_and_another_is_made_meanwhile(
    kind: str, server: Program, tmp_path: Path
) -> None:
    """H11. Lost: the screens of all clients, to one program that prints what takes minutes to draw."""
    output, size = SLOW[kind]
    async with (
        session(server.url) as client,
        session(server.url) as other,
        printing(client, tmp_path / "slow", output, **size) as slow,
        printing(other, tmp_path / "good", b"hello\r\n") as good,
    ):
        asked = asyncio.create_task(shown(slow))
        found = await shown(good)
        assert (found["rows"][0], found["complete"]) == ("hello", True)
        answer = await asked
        assert not answer["complete"] and len(answer["rows"]) == size.get("rows", 24)


@pytest.mark.parametrize("size", [(3000, 3000), (65535, 65535), (1, 65535), (65535, 1)])
async def test_a_screen_has_so_many_cells(size: tuple[int, int], server: Program) -> None:
    """H11. Lost: gigabytes of the server, to a terminal of any size."""
    rows, cols = size
    async with session(server.url) as client:
        process = await client.start("p", "/bin/sleep", "1000", tty=True, rows=rows, cols=cols)
        if rows * cols > screen.MOST_CELLS:
            assert (await expect_error(shown(process))).data["kind"] == "tooLarge"
            await client.call("process/resize", processId="p", rows=10, cols=40)
            rows, cols = 10, 40
        found = await shown(process)
        assert (len(found["rows"]), found["cols"], found["complete"]) == (rows, cols, True)


async def test_resizes_are_not_kept(server: Program) -> None:
    """H11. Lost: the renderer for minutes, and memory, to resizes while nobody looks."""
    async with session(server.url) as client:
        process = await client.start("p", "/bin/cat", tty=True, rows=4, cols=10)
        for number in range(200):
            await client.call("process/resize", processId="p", rows=4, cols=60_000 if number % 2 else 10)
        await client.call("process/resize", processId="p", rows=3, cols=20)
        found = await shown(process)
        assert (len(found["rows"]), found["cols"], found["complete"]) == (3, 20, True)


async def test_a_dead_renderer_costs_one_answer(server: Program, tmp_path: Path) -> None:
    """H11. Lost: the screens of a session for good, when their renderer was killed for its memory."""
    async with session(server.url) as client, printing(client, tmp_path / "p", b"hello\r\n") as process:
        before = set(server.children())
        assert (await shown(process))["rows"][0] == "hello"
        (renderer,) = set(server.children()) - before
        os.kill(renderer, signal.SIGKILL)
        await eventually(lambda: renderer in server.zombies(), "the renderer has ended")
        await expect_error(shown(process))
        found = await shown(process)
        assert not found["complete"], "what may have been the end of one is not given to the next"
        async with printing(client, tmp_path / "q", b"hello\r\n") as second:
            assert (await shown(second))["rows"][0] == "hello"
        await process.terminate()
        await process.closed()


async def test_renderers_end_with_their_screens(server: Program, tmp_path: Path) -> None:
    """H11. Lost: a process of the server for each session that ever looked."""
    async with session(server.url) as client:
        await client.run("warm", "/bin/true")
    load = server.load()
    async with connected(server.url) as client:
        await client.initialize(sessionTtlMs=0)
        for name in "abc":
            async with printing(client, tmp_path / name, b"hello\r\n") as process:
                assert (await shown(process))["rows"][0] == "hello"
    await server.falls_to(load)


def test_there_are_so_many_renderers() -> None:
    """H11. Lost: the memory of the machine, to sessions that each have a renderer."""
    renderers = Renderers(2)
    first, second = renderers.of("a", 1), renderers.of("b", 2)
    assert renderers.of("a", 3) is first
    third = renderers.of("c", 4)
    assert renderers.of("a", 1) is first, "asked for last"
    first._busy = third._busy = True
    with pytest.raises(Busy):
        renderers.of("d", 5)
    assert second is not third


def test_time_that_is_over_leaves_the_rest_for_the_next_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """H11. Lost: the newest screen, where its program prints faster than can be drawn in one go."""
    screens: dict[int, TerminalScreen] = {}
    slow = ALIGN * 200 + b"\0" * 4096 + b"\x1b[2J\x1b[Hthe end"
    monkeypatch.setattr(screen_program, "CPU_S", 0.05)
    answer = _order(screens, Order(1, True, 24, 80, [([slow], 24, 80)], []))
    assert not answer.complete and answer.rows[0] != "the end"
    monkeypatch.setattr(screen_program, "CPU_S", 1000.0)
    answer = _order(screens, Order(1, False, 24, 80, [([], 24, 80)], []))
    assert answer.rows[0] == "the end" and not answer.complete


def _order(screens: dict[int, TerminalScreen], order: Order) -> ShownScreen:
    before = signal.signal(signal.SIGPROF, screen_program.end_of_time)
    try:
        return carry_out(order, screens)
    finally:
        signal.signal(signal.SIGPROF, before)


def test_what_waits_is_bounded() -> None:
    """H11. Lost: memory, to a program that prints faster than its screen can be drawn."""
    screen = TerminalScreen(24, 80)
    for _ in range(10):
        screen.take([b"x" * (1 << 20)], 24, 80)
        assert screen._behind <= MOST_BEHIND
    screen.take([b"\x1b[2J\x1b[Hend"], 24, 80)
    screen.catch_up()
    assert screen.shown().rows[0] == "end" and not screen.shown().complete


@pytest.mark.parametrize("final", [bytes([code]) for code in range(ord("@"), ord("~") + 1)])
def test_numbers_of_any_length(final: bytes) -> None:
    """H11. `CSI` and 5000 digits. Lost: what was printed behind it."""
    for digits in (b"9" * 5000, b"0" * 5000, b"1;" * 5000, b"?" + b"9" * 900, b"0" * 900 + b"3"):
        screen_of(b"\x1b[" + digits + final + b"\x1bc\x1b[2J\x1b[Hx")
        assert screen_of(b"\x1b[" + digits + final + b"\x1bcx").rows[0] == "x"


def test_combining_characters_are_few_in_a_cell() -> None:
    """H11. 800 KB of accents on one cell. Lost: minutes, since each costs as much as all before it."""
    for output in ("e" + "\u0338" * 400_000, "e" + "\u0338\r\x1b[C" * 1000):
        row = screen_of(output.encode()).rows[0]
        assert row[0] == "e" and 2 <= len(row) <= MOST_COMBINING + 1


def test_a_mode_widens_no_screen() -> None:
    """H11. DECCOLM makes 132 columns. Lost: the size that the terminal really has."""
    for sequence in (b"\x1b[?3h", b"\x1b[96h", b"\x1b[?3l", b"\x1b[?3h\x1b[?3l"):
        shown = screen_of(sequence + b"x", 5, 10)
        assert (shown.cols, shown.rows[0]) == (10, "x")


def test_saved_cursors_are_few() -> None:
    """H11. Lost: memory, to a program that saves its cursor for ever."""
    screen = TerminalScreen(24, 80)
    screen.take([b"\x1b7" * 100_000], 24, 80)
    screen.catch_up()
    assert len(screen._screen.savepoints) <= 16


HALVES = {
    "漢\rx": "x",
    "漢\bx": " x",
    "漢\b\bx": "x",
    "漢\x1b[1G\x1b[P": "",
    "漢\x1b[1G\x1b[X": "",
    "漢\x1b[2G\x1b[@": "",
    "漢字\x1b[1G\x1b[1K": "  字",
    "漢字\x1b[2G語": " 語",
    "a漢b": "a漢b",
    "漢\u0301x": "漢\u0301x",
    "a\u200db\u200bc": "abc",
    "\u0301x": "x",
}


@pytest.mark.parametrize("output", HALVES)
def test_half_of_a_wide_character_is_none(output: str) -> None:
    """F1. Lost: the screen, which could not be had any more once half a character was overwritten."""
    assert screen_of(output.encode()).rows[0] == HALVES[output]


def test_a_wide_character_has_no_room_in_the_last_column() -> None:
    """F1. Lost: a row as wide as the terminal."""
    assert screen_of("abc漢".encode(), 3, 4).rows == ["abc", "漢", ""]
    assert screen_of("\x1b[?7labc漢".encode(), 3, 4).rows[1:] == ["", ""]
    assert screen_of("漢字".encode(), 3, 1).cols == 1


PIECES = st.sampled_from(
    ["a", "漢", "e\u0301", "\u200d", "\r", "\n", "\b", "\t", "\x1bc", "\x1b7", "\x1b8", "\x1b#8", "\x1b[?7l", "\x1b[4h"]
    + [
        f"\x1b[{number}{final}"
        for number in ("", "0", "2", "3;5", "9999", "?7", "?3")
        for final in "@ABCDGHJKLMPXdfhlmr"
    ]
)


@given(st.lists(PIECES, max_size=60), st.integers(1, 6), st.integers(1, 8), st.integers(1, 6), st.integers(1, 8))
def test_whatever_is_printed_there_is_a_screen(pieces: list[str], rows: int, cols: int, high: int, wide: int) -> None:
    """F1, H11. Lost: the screen, to any order of what terminals understand."""
    screen = TerminalScreen(rows, cols)
    output = "".join(pieces).encode()
    screen.take([output], high, wide)
    screen.take([output], rows, cols)
    screen.catch_up()
    found = screen.shown()
    assert len(found.rows) == rows and all(len(row) <= cols * (1 + MOST_COMBINING) for row in found.rows)
    assert 0 <= found.cursor[0] < rows and 0 <= found.cursor[1] <= cols
