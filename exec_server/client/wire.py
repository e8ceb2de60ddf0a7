"""A channel over a link: a connection that carries messages of bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from exec_server.client.calls import Call, fail
from exec_server.client.channel import ChannelClosed, Incoming, Refused, Succeeded
from protocol.client_codec import ClientCodec
from protocol.envelope import ErrorResponse, Response
from protocol.errors import InvalidParams, ParseError
from protocol.session import Initialized
from protocol.wire_types import NotificationParams, WireStruct


class LinkClosed(Exception):
    """The link is over; the text is the reason."""


class Link(Protocol):
    """Whole messages in both directions. One task sends, one receives."""

    codec: ClientCodec
    resumable: bool
    in_process: bool

    async def send(self, message: bytes, pass_fds: tuple[int, ...] = ()) -> None:
        """Send a message, and wait until there is room for another. Raises LinkClosed.

        `pass_fds` are descriptors that go beside it, where the server is in this process; no other link takes any.
        """

    async def receive(self) -> bytes:
        """The next message. Raises LinkClosed."""

    async def close(self) -> None:
        """Say goodbye, and wait for the end, some seconds at most."""


class WireChannel:
    """Encodes and decodes; see `Channel`. Requests wait unencoded while the link has no room.

    What waits has no bound of its own: each request has somebody who waits for its answer, and writes are bounded for
    each process.
    """

    def __init__(self, link: Link) -> None:
        self.resumable = link.resumable
        self.in_process = link.in_process
        self._link = link
        self._codec = link.codec
        self._asked: dict[int, type[WireStruct]] = {}
        """Tokens of requests that are sent, and what their answers are."""
        self._outbox: deque[Call[Any] | NotificationParams] = deque()
        self._work = asyncio.Event()
        self._writer = asyncio.create_task(self._write())

    def send(self, call: Call[Any]) -> None:
        self._outbox.append(call)
        self._work.set()

    def initialized(self) -> None:
        self._outbox.append(Initialized())
        self._work.set()

    async def receive(self) -> Incoming:
        while True:
            try:
                message = self._codec.decode(await self._link.receive())
                if isinstance(message, Response):
                    incoming: Incoming | None = self._result(message)
                elif isinstance(message, ErrorResponse):
                    incoming = self._refusal(message)
                else:
                    incoming = message
            except LinkClosed as closed:
                raise ChannelClosed(str(closed)) from None
            except ParseError as error:
                raise ChannelClosed(error.message) from None
            if incoming is not None:
                return incoming

    async def close(self) -> None:
        self._writer.cancel()
        await asyncio.wait([self._writer])
        await self._link.close()

    def _result(self, answer: Response) -> Incoming | None:
        kind = self._asked.pop(answer.id, None) if isinstance(answer.id, int) else None
        if kind is None:
            return None  # an answer that this connection did not ask for
        assert isinstance(answer.id, int)
        return Succeeded(answer.id, self._codec.decode_result(kind, answer.result))

    def _refusal(self, answer: ErrorResponse) -> Incoming | None:
        error = self._codec.decode_error(answer)
        if answer.id == -1:
            raise ParseError(f"the server did not understand a message: {error.message}")
        if not isinstance(answer.id, int) or self._asked.pop(answer.id, None) is None:
            return None
        return Refused(answer.id, error)

    async def _write(self) -> None:
        try:
            while True:
                while self._outbox:
                    item = self._outbox.popleft()
                    message = self._encoded(item)
                    if message is not None:
                        await self._link.send(message, item.pass_fds if isinstance(item, Call) else ())
                self._work.clear()
                await self._work.wait()
        except LinkClosed:
            pass  # whoever receives is told

    def _encoded(self, item: Call[Any] | NotificationParams) -> bytes | None:
        if not isinstance(item, Call):
            return self._codec.encode_notification(item)
        if item.future.done():
            return None  # whoever made it has given up
        try:
            message = self._codec.encode_request(item.token, item.params)
        except Exception as error:
            fail(item.future, InvalidParams(f"{item.params.METHOD} cannot be sent: {error}"))
            return None
        item.sent = True
        self._asked[item.token] = item.params.RESULT
        return message
