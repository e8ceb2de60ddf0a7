"""The terminal that we run in: raw while a program elsewhere has it, and as it was before afterwards."""

from __future__ import annotations

import os
import termios
import tty

_TIDY = (
    b"\x1b[?1049l"  # leave the alternate screen
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"  # no reports of the mouse
    b"\x1b[?2004l\x1b[?1004l"  # nor of pastes and focus
    b"\x1b[?1l\x1b>\x1b[?25h\x1b[0m\r\n"  # keys, cursor and colours as usual
)


class LocalTerminal:
    """Descriptor 0, which is a terminal, and 1, where its size is asked for if 0 does not know. All of it is
    idempotent.
    """

    def __init__(self) -> None:
        self._before = termios.tcgetattr(0)
        self._raw = False

    def raw(self) -> None:
        """Every byte that is typed is read as it is, ^C, ^Z and ^\\ too; nothing is echoed."""
        if not self._raw:
            tty.setraw(0, termios.TCSANOW)
            self._raw = True

    def restore(self) -> None:
        """As it was when this object was made."""
        if self._raw:
            self._raw = False
            try:
                termios.tcsetattr(0, termios.TCSANOW, self._before)
            except termios.error:
                pass  # it is gone

    def tidy(self) -> None:
        """Undo what a program may have switched on that could not clean up behind itself."""
        try:
            os.write(1, _TIDY)
        except OSError:
            pass  # it is gone


def size() -> tuple[int, int] | None:
    """Rows and columns of our terminal; None if there is none that knows."""
    for fd in (0, 1, 2):
        try:
            cols, rows = os.get_terminal_size(fd)
        except OSError:
            continue
        if rows and cols:
            return rows, cols
    return None


def columns() -> int | None:
    """How wide stdout is; None if it is no terminal, or one that does not know (0 columns)."""
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None


def interactive() -> bool:
    """Whether stdin and stdout both are terminals."""
    return os.isatty(0) and os.isatty(1)
