"""Screen of a terminal, made from its output by `pyte` within bounds. Runs in the renderer (`screen_program`).

What pyte would let grow without an end has one here: size, combining characters of a cell, saved cursors. It also loses
its way where half of a wide character is overwritten, and takes a character without width for the end of a text.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from typing import Any, Final

import pyte
from pyte import modes
from wcwidth import wcwidth

from actors.process.screen_messages import ShownScreen
from actors.process.terminal_output import TerminalOutput

MOST_COMBINING: Final = 8
"""Combining characters of one cell; further ones are left out."""
MOST_BEHIND: Final = 4 << 20
"""Bytes of output that may wait to be shown; the oldest beyond are lost."""
_SAVED_CURSORS: Final = 16
_PIECE: Final = 4096
_WIDENING: Final = frozenset((modes.DECCOLM,))


class BoundedScreen(pyte.Screen):
    """`pyte.Screen` in which nothing grows with the output."""

    def draw(self, data: str) -> None:
        if data.isascii():
            super().draw(data)
            return
        text: list[str] = []
        for char in data:
            width = wcwidth(char)
            if width == 1:
                text.append(char)
                continue
            super().draw("".join(text))
            text.clear()
            if width == 2:
                self._draw_wide(char)
            elif width == 0 and unicodedata.combining(char):
                self._combine(char)
        super().draw("".join(text))

    def _draw_wide(self, char: str) -> None:
        if self.cursor.x == self.columns - 1 and self.columns > 1 and modes.DECAWM in self.mode:
            self.cursor.x = self.columns  # half of it has no room in this row
        super().draw(char)

    def _combine(self, char: str) -> None:
        """Add it to the cell before the cursor, if that takes one more."""
        x, y = (self.cursor.x - 1, self.cursor.y) if self.cursor.x else (self.columns - 1, self.cursor.y - 1)
        if y < 0:
            return
        line = self.buffer[y]
        if x and not line[x].data:
            x -= 1  # what is there is the half of a wide character
        cell = line[x]
        if 0 < len(cell.data) <= MOST_COMBINING:
            line[x] = cell._replace(data=unicodedata.normalize("NFC", cell.data + char))

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        dropped = max(0, self.lines - (lines or self.lines))
        super().resize(lines, columns)
        self.cursor.y -= dropped
        self.ensure_vbounds()
        self.cursor.x = min(self.cursor.x, self.columns)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        super().set_mode(*_without_widening(modes, kwargs), **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*_without_widening(modes, kwargs), **kwargs)

    def save_cursor(self) -> None:
        super().save_cursor()
        del self.savepoints[:-_SAVED_CURSORS]

    def row(self, y: int) -> str:
        """A row as text. A wide character of which half was overwritten is gone, and so is its other half."""
        line = self.buffer[y]
        cells = [line[x].data for x in range(self.columns)]
        if "" not in cells and all(map(str.isascii, cells)):
            return "".join(cells)
        text: list[str] = []
        x = 0
        while x < self.columns:
            cell = cells[x]
            if not cell or wcwidth(cell[0]) != 2:
                text.append(cell or " ")
            elif x + 1 < self.columns and not cells[x + 1]:
                text.append(cell)
                x += 1
            else:
                text.append(" ")
            x += 1
        return "".join(text)


def _without_widening(numbers: tuple[int, ...], kwargs: dict[str, Any]) -> list[int]:
    """Modes but DECCOLM, which would make a screen of another size than its terminal has."""
    shift = 5 if kwargs.get("private") else 0
    return [number for number in numbers if number << shift not in _WIDENING]


class TerminalScreen:
    """The screen of one terminal, up to some byte of its output."""

    def __init__(self, rows: int, cols: int) -> None:
        self._screen = BoundedScreen(cols, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._output = TerminalOutput()
        self._waiting: deque[bytes | tuple[int, int]] = deque()
        self._behind = 0
        self._whole = True

    def take(self, output: list[bytes], rows: int, cols: int) -> None:
        """There is this output more; then the window is of this size."""
        for chunk in output:
            self._waiting.extend(chunk[at : at + _PIECE] for at in range(0, len(chunk), _PIECE))
            self._behind += len(chunk)
        self._waiting.append((rows, cols))
        while self._behind > MOST_BEHIND:
            self._whole = False
            self._next_step()

    def catch_up(self) -> None:
        """Show what waits. Whatever this raises, as it may where its time is over, the next call goes on behind it."""
        while self._waiting:
            step = self._next_step()
            if isinstance(step, bytes):
                try:
                    self._stream.feed(self._output.known(step))
                except BaseException:
                    self._whole = False
                    self._stream, self._output = pyte.ByteStream(self._screen), TerminalOutput()
                    raise
            else:
                self._screen.resize(*step)

    def shown(self) -> ShownScreen:
        """What it shows now."""
        screen = self._screen
        return ShownScreen(
            rows=[screen.row(y).rstrip() for y in range(screen.lines)],
            cols=screen.columns,
            cursor=(screen.cursor.y, screen.cursor.x),
            cursor_visible=not screen.cursor.hidden,
            title=screen.title,
            complete=self._whole and not self._waiting,
        )

    def _next_step(self) -> bytes | tuple[int, int]:
        step = self._waiting.popleft()
        if isinstance(step, bytes):
            self._behind -= len(step)
        return step
