"""Requests that are not answered yet, over any number of connections. Pure but for the futures of who waits.

A connection may end while a request is under way. What may be repeated is sent again on the next one: because it
changes nothing, or nothing more the second time. A write carries a `writeId` for that. Nobody can tell whether any
other request was carried out, so it is not repeated, and whoever waits is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Generic, cast

from exec_server.client.errors import TransportDisconnected
from protocol.process import ProcessStartParams
from protocol.requests import Params, ParamsFor, ResultT
from protocol.wire_types import WireStruct


class Call(Generic[ResultT]):
    """One request, and the future of its result. `sent`: it may have reached the server. `repeat`: it may be sent again
    all the same. `pass_fds`: the descriptors that go beside it.
    """

    __slots__ = ("future", "params", "pass_fds", "repeat", "sent", "token")

    def __init__(
        self,
        token: int,
        params: Params,
        future: asyncio.Future[ResultT],
        repeat: bool,
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        self.token = token
        self.params = params
        self.future = future
        self.repeat = repeat
        self.pass_fds = pass_fds
        self.sent = False


class Calls:
    """All unanswered requests of a session, by token, in the order in which they were made."""

    def __init__(self) -> None:
        self._token = 0
        self._open: dict[int, Call[Any]] = {}

    def __iter__(self) -> Iterator[Call[Any]]:
        return iter(list(self._open.values()))

    def add(self, params: ParamsFor[ResultT], repeat: bool = False, pass_fds: tuple[int, ...] = ()) -> Call[ResultT]:
        """A new request; `repeat` if this one may be sent again although others of its kind may not."""
        self._token += 1
        token = self._token
        future: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        request = cast(Params, params)
        call = self._open[token] = Call(token, request, future, repeat or request.may_repeat, pass_fds)
        future.add_done_callback(lambda _: self._open.pop(token, None))
        return call

    def succeed(self, token: int, result: WireStruct) -> None:
        """The server has answered; an answer that nobody waits for any more is dropped."""
        call = self._open.pop(token, None)
        if call is not None and not call.future.done():
            call.future.set_result(result)

    def fail(self, token: int, error: Exception) -> None:
        """The server has refused, or cannot be asked."""
        call = self._open.pop(token, None)
        if call is not None:
            fail(call.future, error)

    def fail_all(self, error: Exception) -> None:
        """No answer will ever come."""
        for token in list(self._open):
            self.fail(token, error)

    def lose_connection(self, reason: str) -> list[Call[Any]]:
        """Drop what must not be sent again: starts, which are returned, and what is failed with `reason`.

        Everything else stays, to be sent on the next connection in the order of this object.
        """
        starts = []
        for call in self:
            if call.future.done():
                del self._open[call.token]
            elif not call.sent or call.repeat:
                call.sent = False
            elif isinstance(call.params, ProcessStartParams):
                starts.append(self._open.pop(call.token))
            else:
                text = f"{reason}; it is not known whether {call.params.METHOD} was carried out"
                self.fail(call.token, TransportDisconnected(text))
        return starts


def fail(future: asyncio.Future[Any], error: Exception) -> None:
    """Give a future an exception, which may remain unseen."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # seen here, for those that nobody awaits
