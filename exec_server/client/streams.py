"""The output of a process as its handle offers it: bytes, text and lines of one stream, or everything in order."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from typing import Literal

from exec_server.client.errors import OutputGap
from exec_server.client.event_buffer import ALL, STREAMS, EventBuffer, Queue
from exec_server.client.events import Event, Failed, Gap, Output
from exec_server.client.text import LINE_LIMIT, CutLine, LineSplitter, LineTooLong


class OutputStream:
    """One stream of a process: `async for chunk in stream`, `read`, `readline`, `text`, `lines`.

    Like an `asyncio.StreamReader`, except that iterating gives chunks of bytes as they come, and `lines` lines. What
    one of these has taken no other gives. They raise OutputGap where output is missing, after which reading may go on,
    TransportDisconnected when the session is lost, and ActorLost when the server has lost the process.
    """

    def __init__(self, buffer: EventBuffer, *queues: Queue) -> None:
        self._buffer = buffer
        self._queues = queues
        self._splitter = LineSplitter()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._next():
            yield chunk

    async def read(self, n: int = -1) -> bytes:
        """Up to `n` bytes, as soon as there are any; all to the end with -1; `b""` at the end. What had come before an
        OutputGap is given by the next call.
        """
        if n == 0:
            return b""
        if n < 0:
            parts = []
            try:
                while chunk := await self._next():
                    parts.append(chunk)
            except OutputGap:
                self._splitter.feed(b"".join(parts))
                raise
            return b"".join(parts)
        chunk = await self._next()
        if len(chunk) > n:
            self._splitter.feed(chunk[n:])
        return chunk[:n]

    async def readline(self, limit: int = LINE_LIMIT) -> bytes:
        """The next line with its end; at the end of the stream what is left, `b""` if nothing is.

        Raises LineTooLong (a ValueError) for a line above `limit` bytes.
        """
        splitter = self._splitter
        while (line := splitter.line(limit)) is None:
            chunk = await self._buffered_chunk()
            if not chunk:
                return splitter.last()
            splitter.feed(chunk)
        return line

    async def lines(
        self,
        encoding: str = "utf-8",
        errors: str = "replace",
        limit: int = LINE_LIMIT,
        too_long: Literal["raise", "cut"] = "raise",
    ) -> AsyncIterator[str]:
        r"""Lines of text without their ends (`\n` or `\r\n`), decoded whole; `encoding` has to be one whose `\n` is
        that of ASCII. A line above `limit` bytes raises LineTooLong, which ends this; with `too_long="cut"` it is a
        CutLine, a str that has its first `limit` bytes and knows how many are missing, and the next line follows.
        """
        while True:
            try:
                line = await self.readline(limit)
            except LineTooLong as error:
                if too_long == "raise":
                    raise
                missing = await self._skip_line()
                yield CutLine.of(codecs.getincrementaldecoder(encoding)(errors).decode(error.beginning), missing)
                continue
            if not line:
                return
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode(encoding, errors)

    async def _skip_line(self) -> int:
        """Drop the rest of a line, as it comes; how many bytes."""
        size, ended = self._splitter.skip()
        while not ended and (chunk := await self._buffered_chunk()):
            self._splitter.feed(chunk)
            more, ended = self._splitter.skip()
            size += more
        return size

    async def text(self, encoding: str = "utf-8", errors: str = "replace") -> AsyncIterator[str]:
        """Text as it comes. A character that is cut between two chunks is given whole, with the later one."""
        decoder = codecs.getincrementaldecoder(encoding)(errors)
        while chunk := await self._next():
            if text := decoder.decode(chunk):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    async def _next(self) -> bytes:
        """What `readline` has left, else the next chunk; empty at the end."""
        return self._splitter.last() or await self._buffered_chunk()

    async def _buffered_chunk(self) -> bytes:
        event = await self._buffer.get(self._queues)
        if event is None:
            raise_if_lost(self._buffer)
            return b""
        if isinstance(event, Gap):
            raise gap_error(event)
        assert isinstance(event, Output)
        return event.data


class AllOutput:
    """The output of a process on all its streams, in the order in which it was read: `async for chunk in it`.

    Each is an `Output`, with its stream, seq and offset. Raises as `OutputStream` does.
    """

    def __init__(self, buffer: EventBuffer) -> None:
        self._buffer = buffer

    async def __aiter__(self) -> AsyncIterator[Output]:
        while (event := await self._buffer.get(STREAMS)) is not None:
            if isinstance(event, Gap):
                raise gap_error(event)
            assert isinstance(event, Output)
            yield event
        raise_if_lost(self._buffer)


class Events:
    """Everything that happens to a process, in order: `async for event in it`. The last is Closed or Failed."""

    def __init__(self, buffer: EventBuffer) -> None:
        self._buffer = buffer

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self._buffer.get(ALL)) is not None:
            yield event


def gap_error(gap: Gap) -> OutputGap:
    """The exception for who does not read events."""
    return OutputGap(gap.process_id, gap.from_seq, gap.to_seq, gap.size)


def raise_if_lost(buffer: EventBuffer) -> None:
    """Raise where the output does not end because the process has closed it: TransportDisconnected if the session is
    lost, ActorLost if the server has lost the process.
    """
    if isinstance(buffer.end, Failed):
        raise buffer.end.error()
