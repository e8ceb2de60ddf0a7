"""Control frames of a connection (RFC 6455, 5.5): the peer's, and ours as bytes, by the library `websockets`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from websockets.protocol import Protocol, Side
from websockets.protocol import State as LibraryState

from transport.frame_output import FrameOutput

UNSENT_PONGS: Final = 256
"""Reading pauses while more Pongs than this wait to be sent: who pings and does not read must not fill our memory."""
_PING: Final = 0x9


class ControlFrames:
    """Answers each Ping, and knows the Close frame of either side."""

    __slots__ = ("_library", "_pongs", "_pongs_end")

    def __init__(self, logger: logging.Logger) -> None:
        self._library = Protocol(Side.SERVER, state=LibraryState.OPEN, logger=logger)
        self._pongs = 0
        self._pongs_end = 0  # value of FrameOutput.handed behind the last Pong

    @property
    def owes_pongs(self) -> bool:
        """Whether so many Pongs were made that the peer has to take them before more is read."""
        return self._pongs >= UNSENT_PONGS

    def receive(self, controls: Iterable[bytes]) -> str | None:
        """Take the peer's control frames; why the connection is over, or None if it is not."""
        library = self._library
        for raw in controls:
            library.receive_data(raw)
            self._pongs += raw[0] & 0x0F == _PING
            if library.close_rcvd is not None or library.parser_exc is not None:
                break
        library.events_received()
        if library.close_rcvd is not None:
            return f"peer closed with code {library.close_rcvd.code} {library.close_rcvd.reason}".rstrip()
        if library.parser_exc is not None:
            return f"protocol violated by the peer: {library.parser_exc}"
        return None

    def pongs_end_at(self, end: int) -> None:
        """The Pongs made so far are out when so many bytes are."""
        self._pongs_end = end

    def pongs_fit(self, output: FrameOutput) -> bool:
        """Whether more may be read: the peer has taken the Pongs, or they are few."""
        if self.owes_pongs:
            if output.flushed < self._pongs_end:
                return False
            self._pongs = 0
        return True

    def ping(self) -> Iterator[bytes]:
        """A Ping, as bytes to send."""
        self._library.send_ping(b"")
        return self.to_send()

    def close(self, code: int, reason: str) -> Iterator[bytes]:
        """A Close frame; its reason is cut to the 123 bytes that it has room for (RFC 6455, 5.5)."""
        self._library.send_close(code, reason.encode()[:123].decode(errors="ignore"))
        return self.to_send()

    def fail(self, code: int, reason: str) -> Iterator[bytes]:
        """The Close frame for a peer that has violated the protocol."""
        self._library.fail(code, reason)
        return self.to_send()

    def to_send(self) -> Iterator[bytes]:
        """What the library wants sent. An empty buffer means to shut down our side, which is the transport's to do."""
        return (buffer for buffer in self._library.data_to_send() if buffer)
