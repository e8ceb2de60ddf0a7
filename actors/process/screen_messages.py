"""Messages between the server and a renderer of screens: each in MessagePack, after its length in four bytes."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

LENGTH: Final = struct.Struct(">I")


class Order(msgspec.Struct, frozen=True):
    """Show a screen with what is new to it. `steps`: output, and the rows and columns of the window after it."""

    screen: int
    fresh: bool
    """Whether it begins anew, as a screen of this size."""
    rows: int
    cols: int
    steps: list[tuple[list[bytes], int, int]]
    dropped: list[int]
    """Screens that are not needed any more."""


class ShownScreen(msgspec.Struct, frozen=True):
    """What a terminal shows: its rows without the blanks at their end, and the cursor."""

    rows: list[str]
    cols: int
    cursor: tuple[int, int]
    cursor_visible: bool
    title: str
    complete: bool
    """Whether all output has been shown, from the beginning on."""
