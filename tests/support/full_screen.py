"""A program that paints the whole terminal: what is typed is shown in a frame, until it is ended from outside."""

from __future__ import annotations

import curses


def paint(screen: curses.window) -> None:
    lines = [""]
    while True:
        screen.erase()
        screen.border()
        screen.addstr(0, 3, " full screen ", curses.A_REVERSE)
        for row, line in enumerate(lines[-20:], 2):
            screen.addstr(row, 4, line)
        screen.refresh()
        key = screen.get_wch()
        if key in ("\r", "\n"):
            lines.append("")
        elif isinstance(key, str) and key.isprintable():
            lines[-1] += key


if __name__ == "__main__":
    curses.wrapper(paint)
