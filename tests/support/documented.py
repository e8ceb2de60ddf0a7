"""Conversations in documents, as they are written there, played to a real server.

`<!-- session -->` before a fenced block begins a conversation, `<!-- continued -->` goes on with it. In the block a
line `> TEXT` is sent and `< TEXT` comes back; with several clients their names stand before the mark, `A> TEXT`.
`> (cut)` cuts a connection, `< (closed 1008)` is the Close of the server. `…` is any text, with the comma before it; a
name like `$SESSION` is taken from the first answer that has it and is the same text from then on. A line `< …` is any
number of messages.

Everything that comes must be shown. Lines that come between two that are sent may come in any order.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import NamedTuple

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from protocol.codec import MSGPACK_SUBPROTOCOL
from tests.support.client import PATIENCE_S

_BLOCK = re.compile(r"<!-- (session|continued) -->\n```\n(.*?)```", re.DOTALL)
_LINE = re.compile(r"([A-Z]?)([<>]) (.*)")
_WILD = re.compile(r"(,? ?…|\$[A-Z]+\b)")


class Line(NamedTuple):
    """One line of a conversation: `client` sends it (`mark` `>`) or gets it (`<`)."""

    client: str
    mark: str
    text: str


def conversations(document: Path) -> list[list[Line]]:
    """All conversations of a document, with what continues them."""
    found: list[list[Line]] = []
    for kind, block in _BLOCK.findall(document.read_text()):
        if kind == "session":
            found.append([])
        for text in block.splitlines():
            match = _LINE.fullmatch(text)
            assert match is not None, f"{document.name}: neither sent nor received: {text}"
            found[-1].append(Line(*match.groups()))
    return found


class Conversation:
    """Plays lines, as JSON or in MessagePack. Raises AssertionError where what comes is not what is shown."""

    def __init__(self, url: str, msgpack: bool = False, **names: str) -> None:
        self._url = url
        self._msgpack = msgpack
        self._sockets: dict[str, ClientConnection] = {}
        self._cut: set[str] = set()
        self._names: dict[str, str] = names
        self.sent: list[tuple[str, str]] = []
        """Client and text of each message that was sent."""
        self.received: list[tuple[str, str]] = []

    async def play(self, lines: list[Line]) -> None:
        """All lines, and the proof that nothing else came."""
        awaited: list[Line] = []
        for line in lines:
            if line.mark == "<":
                awaited.append(line)
                continue
            await self._hear(awaited)
            awaited = []
            await self._send(line)
        await self._hear(awaited)
        for client in self._sockets.keys() - self._cut:
            await self._send(Line(client, ">", '{"id":"the end","method":"environment/status"}'))
            await self._hear([Line(client, "<", '{…"id":"the end"…}')])

    async def close(self) -> None:
        for socket in self._sockets.values():
            await socket.close()

    async def _send(self, line: Line) -> None:
        if line.client not in self._sockets:
            self._sockets[line.client] = await self._connect()
        socket = self._sockets[line.client]
        if line.text == "(cut)":
            self._cut.add(line.client)
            socket.transport.abort()
            return
        text = re.sub(r"\$([A-Z]+)\b", lambda match: self._names.get(match[1], match[0]), line.text)
        self.sent.append((line.client, text))
        await socket.send(packed(text) if self._msgpack else text)

    async def _connect(self) -> ClientConnection:
        names = [Subprotocol(MSGPACK_SUBPROTOCOL)] if self._msgpack else None
        return await connect(self._url, compression=None, max_size=None, proxy=None, subprotocols=names)

    async def _hear(self, awaited: list[Line]) -> None:
        for client in sorted({line.client for line in awaited}):
            left = [line.text for line in awaited if line.client == client]
            others = "…" in left
            left = [text for text in left if text != "…"]
            while left:
                got = await self._receive(client, left)
                shown = next((text for text in left if self._fits(text, got)), None)
                if shown is not None:
                    left.remove(shown)
                else:
                    assert others, f"came:\n{got}\nshown:\n" + "\n".join(left)

    async def _receive(self, client: str, left: list[str]) -> str:
        try:
            async with asyncio.timeout(PATIENCE_S):
                message = await self._sockets[client].recv()
        except ConnectionClosed as closed:
            self._cut.add(client)
            return f"(closed {closed.rcvd.code if closed.rcvd else None})"
        except TimeoutError:
            raise AssertionError("did not come:\n" + "\n".join(left)) from None
        if self._msgpack:
            assert isinstance(message, bytes)
            message = unpacked(message)
        assert isinstance(message, str)
        self.received.append((client, message))
        return message

    def _fits(self, shown: str, got: str) -> bool:
        """Whether a message is what the document shows; if so, the names in it are known from now on."""
        pattern = ""
        new: set[str] = set()
        for part in _WILD.split(shown):
            name = part[1:] if part[:1] == "$" else ""
            if part.endswith("…"):
                pattern += ".*?"
            elif name in new:
                pattern += f"(?P={name})"
            elif name and name not in self._names:
                pattern += f'(?P<{name}>[^",}}\\]]*)'
                new.add(name)
            else:
                pattern += re.escape(self._names.get(name, part))
        match = re.fullmatch(pattern, got)
        if match is not None:
            self._names.update(match.groupdict())
        return match is not None


async def played(url: str, lines: list[Line], msgpack: bool = False, **names: str) -> Conversation:
    """A conversation, played to the end; `names` have their values from the beginning."""
    conversation = Conversation(url, msgpack, **names)
    try:
        await conversation.play(lines)
    finally:
        await conversation.close()
    return conversation


def packed(text: str) -> bytes:
    """A message to the server in MessagePack."""
    message = json.loads(text)
    params = message.get("params", {})
    for member in {"chunk", "dataBase64", "bodyBase64"} & params.keys():
        params[member] = base64.b64decode(params[member])
    return msgspec.msgpack.encode(message)


def unpacked(message: bytes) -> str:
    """A message in MessagePack as it would be in JSON."""
    return msgspec.json.encode(msgspec.msgpack.decode(message)).decode()
