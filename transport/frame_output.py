"""Frames on their way to a socket: collected within a turn of the loop, and made of large messages as the peer takes
them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from transport.base import Pieces
from transport.framing.websocket import FIN, TEXT, frame_header

FRAGMENT_ABOVE: Final = 4 * 1024 * 1024
"""Larger messages go out in several frames, so that a Pong need not wait for all of it."""
FRAGMENT: Final = 1024 * 1024
WRITE_AT_ONCE: Final = 256 * 1024
"""More than this in one turn is written before its end."""
PULL_MARK: Final = 256 * 1024
"""Frames are made while less than this waits in the socket's buffer."""
PULL_TURN: Final = 4 * 1024 * 1024
"""And no more than this in one turn."""


class FrameOutput:
    """What is to be written: buffers of this turn, then messages behind one that is made piece by piece.

    `on_failure` is called where the maker of a message's pieces fails: half of it is out already, so there is no honest
    way to go on.
    """

    __slots__ = ("_fragmenting", "_offset", "_on_failure", "_out", "_waiting", "handed", "opcode", "pending", "socket")

    socket: asyncio.Transport
    """Set when the connection is made."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self._on_failure = on_failure
        self.opcode = TEXT
        """Of the messages."""
        self.pending = 0
        """Bytes that are not given to the socket."""
        self.handed = 0
        """Bytes given to the socket so far."""
        self._out: list[bytes] = []
        self._waiting: deque[bytes | Pieces] = deque()
        self._offset = 0  # into the first of _waiting, if that is bytes
        self._fragmenting = False  # its first frame is out

    @property
    def waits(self) -> bool:
        """Whether a message waits for the peer to take what is before it."""
        return bool(self._waiting)

    @property
    def collected(self) -> bool:
        """Whether there is something to write now."""
        return bool(self._out)

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not taken."""
        return self.pending + self.socket.get_write_buffer_size()

    @property
    def flushed(self) -> int:
        """Bytes that the kernel has taken so far."""
        return self.handed - self.socket.get_write_buffer_size()

    @property
    def end(self) -> int:
        """What `flushed` will be when all that is collected now has been taken."""
        return self.handed + sum(map(len, self._out))

    def message(self, message: bytes) -> None:
        """Queue a message."""
        if self._waiting or len(message) > FRAGMENT_ABOVE:
            self._waiting.append(message)
            self.pending += len(message)
            return
        self._put_frame(message, last=True)
        if self.pending > WRITE_AT_ONCE and not self._waiting:
            self.write()

    def pieces(self, pieces: Pieces) -> None:
        """Queue a message that is made as the peer takes it."""
        self._waiting.append(pieces)
        self.pending += pieces.left

    def raw(self, buffer: bytes) -> None:
        """Queue bytes as they are, ahead of messages that wait."""
        self._out.append(buffer)
        self.pending += len(buffer)

    def write(self) -> None:
        """Give the socket what is collected."""
        out, self._out = self._out, []
        size = sum(map(len, out))
        self.handed += size
        self.pending -= size
        self.socket.writelines(out)

    def pull(self) -> bool:
        """Make frames of the messages that wait, as long as the peer takes them; whether there is more for another
        turn."""
        made, collected, more = 0, 0, False
        while self._waiting:
            if made >= PULL_TURN:
                more = True
                break
            if collected >= PULL_MARK:
                self.write()
                collected = 0
            if self.socket.get_write_buffer_size() >= PULL_MARK:
                break
            first = self._waiting[0]
            size = self._pull_bytes(first) if isinstance(first, bytes) else self._pull_piece(first)
            if size is None:
                return False
            made += size
            collected += size
        if self._out:
            self.write()
        return more

    def drop_waiting(self) -> None:
        """Forget the messages that wait."""
        left = (len(each) if isinstance(each, bytes) else each.left for each in self._waiting)
        self.pending -= sum(left) - self._offset
        self._waiting.clear()
        self._offset = 0

    def clear(self) -> None:
        """Forget everything."""
        self._out, self.pending, self._offset = [], 0, 0
        self._waiting.clear()

    def _pull_bytes(self, message: bytes) -> int:
        whole = self._offset == 0 and len(message) <= FRAGMENT_ABOVE
        piece = message if whole else message[self._offset : self._offset + FRAGMENT]
        self._offset += len(piece)
        last = self._offset == len(message)
        self.pending -= len(piece)
        self._put_frame(piece, last)
        if last:
            self._offset = 0
            self._waiting.popleft()
        return len(piece)

    def _pull_piece(self, pieces: Pieces) -> int | None:
        """Put the next piece out; its size, 0 at the end of the message, None if its maker failed."""
        try:
            piece, made = pieces.next()
        except Exception as error:
            self._on_failure(error)
            return None
        self.pending -= made
        if piece:
            self._put_frame(piece, last=False)
        else:
            if self._fragmenting:
                self._put_frame(b"", last=True)
            self._waiting.popleft()
        return len(piece)

    def _put_frame(self, payload: bytes, last: bool) -> None:
        header = frame_header((0 if self._fragmenting else self.opcode) | (FIN if last else 0), len(payload))
        self._fragmenting = not last
        self._out.append(header)
        self._out.append(payload)
        self.pending += len(header) + len(payload)
