"""Framer: a stream of bytes in, whole messages out, whatever marks their ends."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

Failure = TypeVar("Failure", covariant=True)


class Framer(Protocol, Generic[Failure]):
    """Takes a stream in pieces of any size. Pure: no socket, no loop.

    `Failure` is how it tells what was wrong: a text, or for a WebSocket a Close code and a text.
    """

    @property
    def failure(self) -> Failure | None:
        """What was wrong with the stream; nothing is read after that."""

    @property
    def stopped(self) -> bool:
        """Whether the last `read` left something for want of room. It goes on when called with no bytes."""

    def read(self, data: bytes, inbox: deque[bytes], room: int) -> int:
        """Append at most `room` messages to `inbox`. Returns the number of bytes in them."""

    def finish(self, inbox: deque[bytes]) -> int:
        """The stream has ended: append what is a message without an end of its own, and set `failure` where one was
        cut off. Returns the number of bytes appended."""
