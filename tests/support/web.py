"""A web server for tests, on a real socket, that answers well or badly as its path says.

It writes each response byte by byte as the test wants it, so that no library of ours stands between.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from backports import zstd

TLS_HANDSHAKE = b"\x16"
BLOCK = bytes(range(256)) * 256


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    target: str
    fields: list[tuple[str, str]]
    body: bytes
    reader: asyncio.StreamReader

    def values(self, name: str) -> list[str]:
        return [value for each, value in self.fields if each.lower() == name.lower()]


@dataclass
class Web:
    """A running server: what it was asked, and how many connections it has."""

    base: str = ""
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    opened: int = 0
    sent: int = 0
    """Bytes of large and endless bodies so far."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def url(self, path: str) -> str:
        return self.base + path

    async def until(self, holds: object) -> None:
        """Wait until `holds()`, looked at whenever a request or a connection comes or goes."""
        async with asyncio.timeout(30), self.changed:
            await self.changed.wait_for(holds)  # type: ignore[arg-type]

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.opened += 1
        await self._tell()
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.connections -= 1
            writer.transport.abort()
            await self._tell()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = await reader.readexactly(1)
        if first == TLS_HANDSHAKE:
            writer.write(response(400, b"this is no TLS"))
            await writer.drain()
            return False
        head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        method, target, _ = line.split(" ")
        pairs = [each.partition(":") for each in lines]
        request = Seen(method, target, [(name, value.strip()) for name, _, value in pairs], b"", reader)
        for length in request.values("content-length"):
            request.body = await reader.readexactly(int(length))
        self.seen.append(request)
        await self._tell()
        url = urlsplit(target)
        answer = getattr(self, "_" + url.path.strip("/").replace("/", "_"), None)
        if answer is None:
            writer.write(response(404, b"no such page"))
            return True
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        return bool(await answer(request, query, writer))

    async def _echo(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        told = {
            "method": request.method,
            "target": request.target,
            "fields": request.fields,
            "body": request.body.decode("latin-1"),
        }
        body = json.dumps(told).encode()
        head_only = request.method == "HEAD"
        writer.write(response(200, body, ("X-A", "1"), ("Set-Cookie", "a=1"), ("x-a", "2"), head_only=head_only))
        return True

    async def _hello(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(response(200, b"hello " + request.body, ("Content-Type", "text/plain")))
        return True

    async def _redirect(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(response(int(query.get("status", "302")), b"elsewhere", ("Location", query["to"])))
        return True

    async def _hop(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        left = int(query["n"])
        writer.write(response(302, b"", ("Location", f"/hop?n={left - 1}" if left > 1 else "/echo")))
        return True

    async def _loop(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(response(302, b"", ("Location", "/loop")))
        return True

    async def _big(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        size = int(query["n"])
        writer.write(response(200, b"", length=size))
        for start in range(0, size, len(BLOCK)):
            writer.write(BLOCK[: min(len(BLOCK), size - start)])
            await writer.drain()
            self.sent += len(BLOCK)
        return True

    async def _endless(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(BLOCK)
            await writer.drain()
            self.sent += len(BLOCK)

    async def _never(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        return await gone(request)

    async def _drip(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        """A body of which one byte comes, and no more."""
        writer.write(response(200, b"", length=1000) + b"x")
        return await gone(request)

    async def _slow_head(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nX-A: ")
        return await gone(request)

    async def _abort(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(response(200, b"", length=1000) + b"part")
        await writer.drain()
        return False

    async def _hangup(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        return False

    async def _chunked(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Dup: a\r\nX-Dup: b\r\n\r\n")
        for piece in (b"one;", b"two;", b"three"):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        return True

    async def _bad_chunk(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
        await writer.drain()
        return False

    async def _status(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 %b X\r\nX-A: 1\r\n\r\n" % query["code"].encode())
        return True

    async def _garbage(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write(b"SSH-2.0-nothing\r\n\r\n")
        await writer.drain()
        return False

    async def _fields(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        value = "v" * int(query.get("size", "1"))
        writer.write(response(200, b"ok", *((f"X-{n}", value) for n in range(int(query["n"])))))
        return True

    async def _latin(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        writer.write("HTTP/1.1 200 OK\r\nX-L: é\r\n".encode("latin-1"))
        writer.write("X-U: é\r\nContent-Length: 0\r\n\r\n".encode())
        return True

    async def _coded(self, request: Seen, query: dict[str, str], writer: asyncio.StreamWriter) -> bool:
        """A body of `n` zeros in a coding; `cut` leaves off its end, `as` tells a lie about it."""
        name = query["coding"]
        body = (gzip.compress if name == "gzip" else zstd.compress)(bytes(int(query["n"])))
        body = body[: len(body) - int(query.get("cut", "0"))]
        writer.write(response(200, body, ("Content-Encoding", query.get("as", name))))
        return True


async def gone(request: Seen) -> bool:
    """Wait until the client has closed the connection."""
    await request.reader.read()
    return False


def response(
    status: int, body: bytes, *fields: tuple[str, str], length: int | None = None, head_only: bool = False
) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields)]
    lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if head_only else body)


@asynccontextmanager
async def web_server(context: ssl.SSLContext | None = None) -> AsyncIterator[Web]:
    """A server on a free loopback port; `context` makes it speak TLS."""
    web = Web()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(web.handle(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    web.base = f"{'https' if context else 'http'}://127.0.0.1:{port}"
    try:
        yield web
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
