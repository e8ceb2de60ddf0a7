"""Tables for people. Pure.

Not by rich, which draws the bar of `cp`: loading its tables takes 65 ms, which every `ps` would wait for, and what is
shown here is plain columns for terminals and pipes alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from exec_server.printable import printable


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Columns as wide as what is in them, each line cut to `width` columns if there is one. What could move the cursor
    of a terminal is shown as an escape.
    """
    lines = [list(head), *(list(map(printable, row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ""
    for line in lines:
        cells = [cell.ljust(wide) for cell, wide in zip(line, widths, strict=True)]
        text += "  ".join(cells)[:width].rstrip() + "\n"
    return text
