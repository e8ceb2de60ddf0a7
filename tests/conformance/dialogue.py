"""A conversation with a server as a test reads it: send, expect. What fails shows the whole of it."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.conformance.encodings import JSON, in_messagepack
from tests.conformance.wires import PATIENCE_S, Wire, WireClosed

ANY: Any = ...
"""In an expected message: the member must be there, whatever its value."""
SHOWN = 400


class Dialogue:
    """One client's side of a connection.

    Messages from the server are kept in the order of their arrival until something expects them; an expectation
    takes the first message that fits and leaves the others, since answers of different requests and notifications
    of different processes have no order among each other.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.encoding = wire.encoding
        self._ids = itertools.count(1)
        self._written: list[str] = []
        self._kept: list[dict[str, Any]] = []
        self.received: list[dict[str, Any]] = []
        """Every message from the server, in the order of arrival."""
        self.raw: list[bytes] = []
        """The same as they came."""
        self.closed: WireClosed | None = None

    async def send(self, message: Mapping[str, Any] | str | bytes) -> None:
        """A message, or the exact text or bytes of one. A connection that is gone is no fault here."""
        exact = self.encoding.encode(message) if isinstance(message, Mapping) else message
        self._written.append(f"> {_short(exact)}")
        try:
            await self._wire.send(exact)
        except WireClosed as closed:
            self._note_end(closed)

    async def say(self, text: str) -> None:
        """A message that is written as JSON, in the encoding of this conversation."""
        message = text if self.encoding is JSON else in_messagepack(text)
        assert message is not None, f"cannot be said in {self.encoding.name}: {text}"
        await self.send(message)

    async def expect(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The first message that has at least these members with these values, which is taken."""
        return await self._until(lambda got: _has(got, message), f"a message with {json.dumps(message, default=str)}")

    async def answer(self, request_id: Any) -> dict[str, Any]:
        """The answer to a request, whether result or error."""
        return await self._until(
            lambda got: "method" not in got and _same(got.get("id"), request_id), f"the answer to {request_id!r}"
        )

    async def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """A request with an id of its own, and its answer."""
        request_id = f"call-{next(self._ids)}"
        await self.send({"id": request_id, "method": method, "params": params})
        return await self.answer(request_id)

    async def result(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The result of a request that must succeed."""
        answer = await self.call(method, **params)
        if "result" not in answer:
            self.fail(f"expected {method} to succeed")
        result: dict[str, Any] = answer["result"]
        return result

    async def initialize(self, **params: Any) -> dict[str, Any]:
        """The handshake. The result of `initialize`; without `resumeSessionId` it looks like that of the seed."""
        result = await self.result("initialize", **({"clientName": "conformance"} | params))
        await self.send({"method": "initialized"})
        return result

    async def expect_closed(self) -> int | None:
        """The server ends the conversation; the code it gave. What it said before stays to be expected."""
        while self.closed is None:
            await self._receive("the end of the connection")
        return self.closed.code

    async def is_alive(self) -> None:
        """The connection must still answer."""
        await self.expect_error(await self.call("process/read", processId="is there nobody?"), -32600)

    async def expect_error(self, answer: Mapping[str, Any], code: int, message: str = "") -> dict[str, Any]:
        """An answer must be this error; its text must begin with `message`."""
        error: dict[str, Any] = answer.get("error", {})
        if error.get("code") != code or not error["message"].startswith(message):
            self.fail(f"expected error {code} {message!r}, got {_short(json.dumps(answer))}")
        return error

    async def hear(self, what: str) -> None:
        """Wait for the next message, whatever it is, and keep it. Fails if the connection ends instead."""
        if self.closed is not None:
            self.fail(f"the connection ended before {what}")
        await self._receive(what)

    def unexpected(self) -> list[dict[str, Any]]:
        """What has arrived and nothing has expected yet."""
        return list(self._kept)

    async def close(self) -> None:
        self._written.append("> (closes)")
        await self._wire.close()

    def fail(self, why: str) -> None:
        """Fail the test, and show the dialogue."""
        pytest.fail(f"{why}\n{self.written()}", pytrace=False)

    def written(self) -> str:
        """The dialogue so far."""
        return "\n".join(self._written)

    async def _until(self, fits: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        seen = 0
        while True:
            for index in range(seen, len(self._kept)):
                if fits(self._kept[index]):
                    return self._kept.pop(index)
            seen = len(self._kept)
            if self.closed is not None:
                self.fail(f"the connection ended before {what}")
            await self._receive(what)

    async def _receive(self, what: str) -> None:
        try:
            data = await asyncio.wait_for(self._wire.receive(), PATIENCE_S)
        except TimeoutError:
            self.fail(f"nothing came in {PATIENCE_S} s while waiting for {what}")
        except WireClosed as closed:
            self._note_end(closed)
        else:
            message = self.encoding.decode(data)
            self._written.append(f"< {_short(data)}")
            self.raw.append(data)
            self.received.append(message)
            self._kept.append(message)

    def _note_end(self, closed: WireClosed) -> None:
        if self.closed is None:
            self.closed = closed
            self._written.append(f"< ({closed})")


def _has(got: Any, expected: Any) -> bool:
    if expected is ANY:
        return True
    if isinstance(expected, Mapping):
        return isinstance(got, dict) and all(key in got and _has(got[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(_has, got, expected))
    return _same(got, expected)


def _same(got: Any, expected: Any) -> bool:
    return type(got) is type(expected) and bool(got == expected)


def _short(exact: str | bytes) -> str:
    text = exact if isinstance(exact, str) else exact.decode(errors="backslashreplace")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def text_of(chunks: list[dict[str, Any]]) -> bytes:
    """The bytes of chunks or output notifications' params, joined."""
    return b"".join(base64.b64decode(chunk["chunk"]) for chunk in chunks)
