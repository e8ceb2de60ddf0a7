"""What a terminal is told and asked through its master (tty_ioctl(4), termios(3))."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import tty
from typing import Final

from ptyprocess import PtyProcess

_TIOCSPTLCK: Final = 0x40045431
_TIOCGPTN: Final = 0x80045430
_DISABLED: Final = b"\0"
"""_POSIX_VDISABLE on Linux: no character has this function."""


def open_master(rows: int, cols: int, *, echo: bool = True, raw: bool = False) -> tuple[int, bytes]:
    """A new terminal of this size: its master, non-blocking and close-on-exec from the start, and the path of
    the other side. Its modes are the usual ones, but for `echo` and `raw` (cfmakeraw(3)). Raises
    OSError (ENOSPC: no terminal left).
    """
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
        (number,) = struct.unpack("I", fcntl.ioctl(master, _TIOCGPTN, bytes(4)))
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if raw:
            tty.setraw(master, termios.TCSANOW)
        elif not echo:
            _stop_echo(master)
    except BaseException:
        os.close(master)
        raise
    return master, b"/dev/pts/%d" % number


def _stop_echo(master: int) -> None:
    attributes = termios.tcgetattr(master)
    attributes[3] &= ~(termios.ECHO | termios.ECHONL)
    termios.tcsetattr(master, termios.TCSANOW, attributes)


class Terminal(PtyProcess):
    """ptyprocess's knowledge of terminals on a master that somebody else owns: it never closes, waits or
    kills.

    `setwinsize`, `getwinsize` and `getecho` are ptyprocess's own.
    """

    def __init__(self, pid: int, master: int) -> None:
        # Not PtyProcess.__init__, which wraps the descriptor in file objects that close it.
        self.pid = pid
        self.fd = master
        self.closed = True

    def __del__(self) -> None:
        """Nothing: ptyprocess's own sleeps 100 ms and closes a number that may be somebody else's by then."""

    def close(self, force: bool = True) -> None:
        """Nothing: the master belongs to the child's owner."""

    def eof_char(self) -> bytes:
        """What ends the input of a reader now: VEOF, or nothing in raw mode, where no character does."""
        attributes = termios.tcgetattr(self.fd)  # of the other side: a Linux master has none of its own
        char = attributes[6][termios.VEOF]
        if not attributes[3] & termios.ICANON or not isinstance(char, bytes) or char == _DISABLED:
            return b""
        return char
