"""A test client for a real server, over WebSocket or stdio.

    async with connected(url) as client:
        await client.initialize()
        ls = await client.start("ls", "/bin/ls")
        ended = await ls.closed()

It checks what every client may rely on: each request is answered exactly once, and the notifications of a
process have rising seqs without a hole. A breach is a `Breach`, raised by whatever is waiting and at the end.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import msgpack
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.support.encodings import ENCODINGS, JSON, Encoding

PATIENCE_S = 30.0
"""The end of every wait; a test that gets there has failed."""
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

_write_ids = itertools.count(1)  # of all clients: a session remembers those of its last connection


class Breach(AssertionError):
    """The server broke a promise of the wire."""


class RpcError(Exception):
    """An error answer."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']} {error.get('data')}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: dict[str, Any] = error.get("data") or {}


class ConnectionLost(Exception):
    """The connection ended while something was waited for."""


class Link(Protocol):
    """One connection, as the client needs it."""

    async def send(self, message: bytes) -> None: ...
    async def receive(self) -> bytes | str | None:
        """The next message; None at the end."""

    def abort(self) -> None:
        """Cut it without a goodbye."""

    async def close(self) -> None: ...


class WebSocketLink:
    """A connection of the `websockets` library; `abort` resets the TCP connection, as a network does."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._text = socket.subprotocol is None

    async def send(self, message: bytes) -> None:
        try:
            await self.socket.send(message, text=self._text)
        except ConnectionClosed as error:
            raise ConnectionLost(str(error)) from None

    async def receive(self) -> bytes | str | None:
        try:
            message = await self.socket.recv()
        except ConnectionClosed:
            return None
        if isinstance(message, str) is not self._text:
            raise Breach(f"a frame of the wrong kind: {message[:100]!r}")
        return message

    def abort(self) -> None:
        self.socket.transport.abort()

    async def close(self) -> None:
        await self.socket.close()


class StdioLink:
    """Lines over a pair of pipes: `reader` is the server's stdout, `writer` its stdin."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, message: bytes) -> None:
        self.writer.write(message + b"\n")
        await self.writer.drain()

    async def receive(self) -> bytes | str | None:
        return await self.reader.readline() or None

    def end_input(self) -> None:
        """The end of the server's stdin; what it writes can still be read."""
        self.writer.close()

    def abort(self) -> None:
        self.writer.close()

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has gone first


class StdioMapLink(StdioLink):
    """Maps of MessagePack over a pair of pipes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._unpacker = msgpack.Unpacker(max_buffer_size=0)

    async def send(self, message: bytes) -> None:
        self.writer.write(message)
        await self.writer.drain()

    async def receive(self) -> bytes | str | None:
        while True:
            try:
                message: bytes = msgpack.packb(self._unpacker.unpack())
                return message
            except msgpack.OutOfData:
                data = await self.reader.read(1 << 16)
                if not data:
                    return None
                self._unpacker.feed(data)


class Ended(NamedTuple):
    """A process that has been followed to `closed`."""

    stdout: bytes
    stderr: bytes
    pty: bytes
    code: int
    signal: str | None
    reason: str
    methods: list[str]
    """What was notified, in order: `output`, `exited`, `closed`."""


class Process:
    """What a client hears of one process. With `keep` False, bytes are counted and thrown away."""

    def __init__(self, client: Client, process_id: str, first_seq: int | None, keep: bool = True) -> None:
        self.client = client
        self.id = process_id
        self.keep = keep
        self.next_seq = first_seq
        self.chunks: list[tuple[int, str, bytes]] = []
        self.sizes = {"stdout": 0, "stderr": 0, "pty": 0}
        self.methods: list[str] = []
        self.exit: dict[str, Any] | None = None
        self.is_closed = False

    def feed(self, method: str, params: dict[str, Any]) -> None:
        """Take one notification. Raises Breach where its number is not the next."""
        seq = params["seq"]
        if self.next_seq is not None and seq != self.next_seq:
            raise Breach(f"{self.id}: expected seq {self.next_seq}, got {method} {seq}")
        if self.is_closed:
            raise Breach(f"{self.id}: {method} {seq} after closed")
        self.next_seq = seq + 1
        if method == "output":
            chunk = base64.b64decode(params["chunk"], validate=True)
            if not chunk:
                raise Breach(f"{self.id}: an empty chunk, seq {seq}")
            self.sizes[params["stream"]] += len(chunk)
            if not self.keep:
                return
            self.chunks.append((seq, params["stream"], chunk))
        elif method == "exited":
            if self.exit is not None:
                raise Breach(f"{self.id}: exited twice")
            self.exit = params
        elif method == "closed":
            if self.exit is None:
                raise Breach(f"{self.id}: closed before exited")
            self.is_closed = True
        self.methods.append(method)

    def output(self, *streams: str) -> bytes:
        """All bytes so far of these streams (of all, if none is named), in the order of their seqs."""
        return b"".join(chunk for _, stream, chunk in self.chunks if not streams or stream in streams)

    async def shows(self, text: bytes) -> bytes:
        """Wait until `text` is in the output; all output so far."""
        await self.client.until(lambda: text in self.output(), lambda: f"{text!r} in {self.output()[-500:]!r}")
        return self.output()

    async def exited(self) -> dict[str, Any]:
        """Wait for the exit; its params."""
        await self.client.until(lambda: self.exit is not None, lambda: f"exit of {self.id}")
        assert self.exit is not None
        return self.exit

    async def closed(self) -> Ended:
        """Wait for `closed`."""
        await self.client.until(lambda: self.is_closed, lambda: f"closed of {self.id}, {self.methods[-3:]}")
        assert self.exit is not None
        out, err, pty = (self.output(each) for each in ("stdout", "stderr", "pty"))
        return Ended(out, err, pty, self.exit["exitCode"], self.exit["signal"], self.exit["reason"], self.methods)

    async def write(self, data: bytes, write_id: str | None = None) -> str:
        """Write to its stdin; the status."""
        params = self.client.write_params(self.id, data, write_id)
        return str((await self.client.call("process/write", **params))["status"])

    async def read(self, **params: Any) -> dict[str, Any]:
        return await self.client.call("process/read", processId=self.id, **params)

    async def terminate(self) -> bool:
        """Whether it was running."""
        return bool((await self.client.call("process/terminate", processId=self.id))["running"])

    async def signal(self, signal: str = "interrupt") -> None:
        await self.client.call("process/signal", processId=self.id, signal=signal)


class Body:
    """What a client hears of one streamed HTTP body."""

    def __init__(self, client: Client, request_id: str) -> None:
        self.client = client
        self.id = request_id
        self.pieces: list[bytes] = []
        self.is_done = False
        self.error: str | None = None

    def feed(self, params: dict[str, Any]) -> None:
        """Take one notification. Raises Breach where its number is not the next, or a piece is too large."""
        piece = base64.b64decode(params["deltaBase64"], validate=True)
        if self.is_done or params["seq"] != len(self.pieces) + 1:
            raise Breach(f"{self.id}: expected seq {len(self.pieces) + 1}, got {params['seq']}, done {self.is_done}")
        if params["done"] is bool(piece) or len(piece) > 65536 or (params["error"] and not params["done"]):
            raise Breach(f"{self.id}: {len(piece)} bytes, done {params['done']}, error {params['error']}")
        self.pieces.append(piece)
        self.is_done, self.error = params["done"], params["error"]

    def data(self) -> bytes:
        return b"".join(self.pieces)

    async def ended(self) -> bytes:
        """Wait for the last delta; all bytes. `error` says whether the body is whole."""
        await self.client.until(lambda: self.is_done, lambda: f"the end of body {self.id}")
        return self.data()


class Client:
    """One connection to a server. Reads all the time, unless it is told to stop: see `stop_reading`."""

    def __init__(self, link: Link, encoding: Encoding = JSON) -> None:
        self.link = link
        self.encoding = encoding
        self.session_id = self.observe_id = ""
        self.processes: dict[str, Process] = {}
        self.bodies: dict[str, Body] = {}
        self.changed: list[int] = []
        """Watches of fs/watchMissing that are over."""
        self.strangers: list[dict[str, Any]] = []
        """Answers with an id that was not ours: -1 for what could not be parsed."""
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._fault: Exception | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self.lost = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    # Reading.

    async def _read(self) -> None:
        try:
            while True:
                await self._may_read.wait()
                message = await self.link.receive()
                if message is None:
                    break
                self._dispatch(self.encoding.decode(message))
        except Exception as error:
            self._fault = error
        self.lost.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._fault or ConnectionLost())
                answer.exception()  # retrieved here, for those that nobody awaits
        self._wake()

    def _dispatch(self, message: dict[str, Any]) -> None:
        if "method" in message:
            family, _, method = message["method"].partition("/")
            if message["method"] == "http/request/bodyDelta":
                request_id = message["params"]["requestId"]
                if request_id not in self.bodies:
                    self.bodies[request_id] = Body(self, request_id)
                self.bodies[request_id].feed(message["params"])
                self._wake()
                return
            if message["method"] == "fs/missingChanged":
                self.changed.append(message["params"]["watchId"])
                self._wake()
                return
            if family != "process":
                raise Breach(f"unexpected notification: {message}")
            params = message["params"]
            process = self.processes.get(params["processId"])
            if process is None:
                process = self.follow(params["processId"])
            process.feed(method, params)
            self._wake()
            return
        answer = self._answers.pop(message["id"], None) if isinstance(message["id"], int) else None
        if answer is not None:
            if not answer.cancelled():
                answer.set_result(message)
        elif message["id"] == -1:
            self.strangers.append(message)
            self._wake()
        else:
            raise Breach(f"an answer that nobody asked for, or asked for once: {message}")

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def stop_reading(self) -> None:
        """Take nothing from the connection any more, once what is being read is read."""
        self._may_read.clear()

    def read_on(self) -> None:
        self._may_read.set()

    async def until(self, holds: Callable[[], bool], what: Callable[[], str] = lambda: "") -> None:
        """Wait until `holds`, looked at after each message. Raises what broke the connection, if it broke first."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not holds():
                    if self.lost.is_set():
                        raise self._fault or ConnectionLost(what())
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiters.add(waiter)
                    try:
                        await waiter
                    finally:
                        self._waiters.discard(waiter)
        except TimeoutError:
            raise Breach(f"waited in vain for {what()}") from None

    # Requests.

    async def send(self, method: str, /, **params: Any) -> asyncio.Future[dict[str, Any]]:
        """Send a request; a future of the whole answer, error or not."""
        request_id = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        await self.link.send(self.encoding.encode({"id": request_id, "method": method, "params": params}))
        return answer

    async def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """A request and its result. Raises RpcError."""
        return await result_of(await self.send(method, **params))

    async def notify(self, method: str, **params: Any) -> None:
        await self.link.send(self.encoding.encode({"method": method, "params": params}))

    async def initialize(self, resume: str | None = None, **more: Any) -> dict[str, Any]:
        """The handshake of a client of the current generation; the result of `initialize`."""
        result = await self.call("initialize", clientName="tests", resumeSessionId=resume, **more)
        await self.notify("initialized")
        self.session_id, self.observe_id = result["sessionId"], result.get("observeId", "")
        return result

    def write_params(self, process_id: str, data: bytes, write_id: str | None = None) -> dict[str, str]:
        """Params of `process/write`."""
        chosen = write_id or f"w{next(_write_ids)}"
        return {"processId": process_id, "chunk": base64.b64encode(data).decode(), "writeId": chosen}

    # Processes.

    def follow(self, process_id: str, first_seq: int | None = None, keep: bool = True) -> Process:
        """Hear a process that this connection did not start, or is about to; `first_seq` None: from anywhere."""
        process = self.processes[process_id] = Process(self, process_id, first_seq, keep)
        return process

    async def start(self, process_id: str, *argv: str, keep: bool = True, **params: Any) -> Process:
        """Start a command, by default in the root directory on pipes. Raises RpcError."""
        process = self.follow(process_id, 1, keep)
        try:
            await self.call("process/start", **start_params(process_id, *argv, **params))
        except RpcError:
            del self.processes[process_id]
            raise
        return process

    async def shell(self, process_id: str, script: str, **params: Any) -> Process:
        """Start `sh -c SCRIPT`."""
        return await self.start(process_id, "/bin/sh", "-c", script, **params)

    async def run(self, process_id: str, *argv: str, **params: Any) -> Ended:
        """Start a command and follow it to its end."""
        return await (await self.start(process_id, *argv, **params)).closed()

    # HTTP.

    async def request(self, url: str, *headers: tuple[str, str], **params: Any) -> dict[str, Any]:
        """A whole response; its `body` is decoded. Raises RpcError."""
        params.setdefault("method", "GET")
        params.setdefault("requestId", "whole")
        fields = [{"name": name, "value": value} for name, value in headers]
        result = await self.call("http/request", **{"url": url, "headers": fields, **params})
        return {**result, "body": base64.b64decode(result["bodyBase64"], validate=True)}

    async def stream(self, request_id: str, url: str, **params: Any) -> tuple[dict[str, Any], Body]:
        """A response and its body, which is still to come. Raises RpcError."""
        self.bodies[request_id] = Body(self, request_id)
        result = await self.request(url, requestId=request_id, streamResponse=True, **params)
        return result, self.bodies[request_id]

    # The end.

    async def abort(self) -> None:
        """Cut the connection."""
        self.link.abort()
        self.read_on()
        await asyncio.wait_for(self.lost.wait(), PATIENCE_S)

    async def close(self) -> None:
        """Say goodbye, and raise a Breach that nobody has seen."""
        self.read_on()
        await self.link.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._reader), PATIENCE_S)
        finally:
            self._reader.cancel()
        if isinstance(self._fault, Breach):
            raise self._fault


def start_params(process_id: str, *argv: str, **params: Any) -> dict[str, Any]:
    """Params of `process/start`."""
    return {"processId": process_id, "argv": argv, "cwd": "file:///", "env": ENV, "tty": False, **params}


async def result_of(answer: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
    """The result in an answer. Raises RpcError, and Breach if it does not come."""
    try:
        message = await asyncio.wait_for(answer, PATIENCE_S)
    except TimeoutError:
        raise Breach("a request was not answered") from None
    if "error" in message:
        raise RpcError(message["error"])
    result: dict[str, Any] = message["result"]
    return result


@asynccontextmanager
async def connected(url: str, encoding: str = "json", **options: Any) -> AsyncIterator[Client]:
    """A client on a new WebSocket, with JSON or `msgpack`; `options` are those of websockets' `connect`."""
    chosen = ENCODINGS[encoding]
    settings = {"compression": None, "max_size": None, "ping_interval": None, "proxy": None, **options}
    subprotocols = None if chosen.subprotocol is None else [Subprotocol(chosen.subprotocol)]
    client = Client(WebSocketLink(await connect(url, subprotocols=subprotocols, **settings)), chosen)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def session(url: str, encoding: str = "json", **options: Any) -> AsyncIterator[Client]:
    """A client that has shaken hands."""
    async with connected(url, encoding, **options) as client:
        await client.initialize()
        yield client


async def expect_error(answer: Coroutine[Any, Any, Any]) -> RpcError:
    """The error that this call must end in."""
    try:
        result = await answer
    except RpcError as error:
        return error
    raise AssertionError(f"an error was expected, not {result}")
