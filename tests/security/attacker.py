"""A client that gets a connection into a state and then breaks the rules: blocking sockets, all waits bounded."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import msgpack

from tests.security.grammar import ENCODERS, PROCESS, SESSION
from tests.support.client import ENV, PATIENCE_S
from tests.transport.support import KEY, masked_frame

PROBE = "probe"
BEFORE_UPGRADE = ("before the head", "in the head")
UPGRADED = ("before initialize", "initialized", "starting", "running", "paused", "detached", "closing")

STDIO = ("stdio: before initialize", "stdio: running")


class WrongError(AssertionError):
    """The server said something that no server may say, or nothing."""


class Attacker:
    """One connection in one of the states `BEFORE_UPGRADE` and `UPGRADED`."""

    def __init__(self, url: str, state: str, encoding: str) -> None:
        self.encoding = encoding
        self.session_id = ""
        self._address = urlsplit(url)
        self._buffer = b""
        self._ended = False
        self._probed = False
        self._socket = self._connect()
        try:
            getattr(self, "_be_" + state.replace(" ", "_"))()
        except BaseException:
            self._socket.close()
            raise

    def attack(self, payloads: list[bytes], are_messages: bool) -> None:
        """Send them. After messages a good request follows, which must be answered while the connection lives. Then
        end our side, and read to the end. Raises WrongError."""
        try:
            if are_messages:
                known = self.session_id.encode() or SESSION.encode()
                probe = ENCODERS[self.encoding]({"id": PROBE, "method": "environment/status"})
                messages = [*(each.replace(SESSION.encode(), known) for each in payloads), probe]
                self._put(b"".join(map(self._frame, messages)))
                while not self._probed and self._next_message() is not None:
                    pass
            else:
                self._put(b"".join(payloads))
            self._end()
        finally:
            self._socket.close()

    # The states.

    def _be_before_the_head(self) -> None:
        self._upgraded = False

    def _be_in_the_head(self) -> None:
        self._upgraded = False
        self._socket.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgra")

    def _be_before_initialize(self) -> None:
        self._upgrade()

    def _be_initialized(self, ttl_ms: int = 0) -> None:
        self._upgrade()
        params = {"clientName": "abuse", "resumeSessionId": None, "sessionTtlMs": ttl_ms}
        self.session_id = self._call("initialize", **params)["sessionId"]
        self._socket.sendall(self._message(method="initialized"))

    def _be_starting(self) -> None:
        self._be_initialized()
        self._held = self._start("exec /bin/cat")  # goes out with what follows

    def _be_running(self) -> None:
        self._be_initialized()
        self._socket.sendall(self._start("exec /bin/cat"))
        self._call("process/read", processId=PROCESS)

    def _be_paused(self) -> None:
        self._be_initialized()
        hold = self._message(id=2, method="process/flow", params={"processId": PROCESS, "paused": True})
        self._socket.sendall(self._start("exec yes") + hold)
        self._call("process/list")

    def _be_detached(self) -> None:
        self._be_initialized(ttl_ms=2000)
        self._socket.sendall(self._start("exec /bin/cat"))
        self._call("process/read", processId=PROCESS)
        detached = self.session_id
        self._socket.close()
        self._socket, self._buffer = self._connect(), b""
        self._be_initialized()
        self.session_id = detached

    def _be_closing(self) -> None:
        self._be_running()
        self._held = masked_frame(0x88, b"\x03\xe8")

    # The parts.

    _held = b""
    _upgraded = True

    def _connect(self) -> socket.socket:
        made = socket.create_connection((self._address.hostname, self._address.port), PATIENCE_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def _upgrade(self) -> None:
        more = "Sec-WebSocket-Protocol: exec-server.msgpack\r\n" if self.encoding == "msgpack" else ""
        self._socket.sendall(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{more}"
            f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise WrongError(f"no upgrade: {head!r}")

    def _start(self, script: str) -> bytes:
        params = {
            "processId": PROCESS,
            "argv": ["/bin/sh", "-c", script],
            "cwd": "/",
            "env": ENV,
            "tty": False,
            "pipeStdin": True,
        }
        return self._message(id=1, method="process/start", params=params)

    def _message(self, **members: Any) -> bytes:
        return self._frame(ENCODERS[self.encoding](members))

    def _frame(self, message: bytes) -> bytes:
        return masked_frame(0x82 if self.encoding == "msgpack" else 0x81, message, bytes(4))

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._socket.sendall(self._message(id=method, method=method, params=params))
        while True:
            message = self._next_message()
            if message is None:
                raise WrongError(f"the connection ended at {method}")
            if message.get("id") == method:
                if "error" in message:
                    raise WrongError(f"{method}: {message}")
                result: dict[str, Any] = message["result"]
                return result

    def _put(self, data: bytes) -> None:
        try:
            self._socket.sendall(self._held + data)
        except (BrokenPipeError, ConnectionResetError):
            self._ended = True

    def _end(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:  # it is reset already
            return
        while not self._ended:
            if self._upgraded:
                self._next_message()
            else:
                self._more()

    def _next_message(self) -> dict[str, Any] | None:
        """The next message, looked at; None at the end or a Close frame. Other control frames are passed over."""
        while (frame := self._next_frame()) is not None:
            first, payload = frame
            if first == 0x88:
                return None
            if first & 0x08:
                continue
            if first != (0x82 if self.encoding == "msgpack" else 0x81):
                raise WrongError(f"a frame that begins with {first:#x}")
            message = checked(payload, self.encoding)
            self._probed |= message.get("id") == PROBE
            return message
        return None

    def _next_frame(self) -> tuple[int, bytes] | None:
        while True:
            found = _cut_frame(self._buffer)
            if found is not None:
                first, payload, self._buffer = found
                return first, payload
            if not self._more():
                return None

    def _more(self) -> bool:
        try:
            data = self._socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        except TimeoutError:
            raise WrongError("the server neither answers nor ends the connection") from None
        self._buffer += data
        self._ended |= not data
        return bool(data)


def checked(payload: bytes, encoding: str) -> dict[str, Any]:
    """A message of the server. Raises WrongError if it is none that a client could read."""
    try:
        message = json.loads(payload) if encoding == "json" else msgpack.unpackb(payload)
    except ValueError as error:
        raise WrongError(f"{error}: {payload[:200]!r}") from None
    if not isinstance(message, dict):
        raise WrongError(f"no object: {message!r}")
    error = message.get("error")
    is_answer = "id" in message and ("result" in message) is not ("error" in message)
    if not is_answer and not ("method" in message and "id" not in message):
        raise WrongError(f"neither an answer nor a notification: {message}")
    if error is not None and not (type(error["code"]) is int and error["message"]):
        raise WrongError(f"an error that says nothing: {message}")
    return message


def _cut_frame(buffer: bytes) -> tuple[int, bytes, bytes] | None:
    if len(buffer) < 2:
        return None
    first, length, start = buffer[0], buffer[1], 2
    if length > 127:
        raise WrongError("a server must not mask")
    if length > 125:
        start = 4 if length == 126 else 10
        length = int.from_bytes(buffer[2:start], "big")
    end = start + length
    return None if len(buffer) < max(start, end) else (first, buffer[start:end], buffer[end:])


class StdioAttacker:
    """A server's standard input and output, a line a message; `write` and `read_line` block, bounded."""

    def __init__(self, write: Callable[[bytes], object], lines: Iterator[bytes]) -> None:
        self._write = write
        self._lines = lines
        self.session_id = SESSION

    def initialize(self) -> None:
        """Get it from `before initialize` to `running`."""
        self.session_id = self._call("initialize", {"clientName": "abuse", "resumeSessionId": None})["sessionId"]
        argv = ["/bin/sh", "-c", "exec /bin/cat"]
        more = {"argv": argv, "cwd": "/", "env": ENV, "tty": False, "pipeStdin": True}
        self._write(b'{"method":"initialized"}\n')
        self._call("process/start", {"processId": PROCESS, **more})

    def attack(self, payload: bytes) -> bool:
        """Send it as a line; a good request after it must be answered, or the server must end: whether it lives on.
        Raises WrongError."""
        line = payload.replace(SESSION.encode(), self.session_id.encode()).replace(b"\n", b" ")
        try:
            self._write(line + b"\n" + ENCODERS["json"]({"id": PROBE, "method": "environment/status"}) + b"\n")
        except BrokenPipeError:
            pass  # the answers are still there to be read
        return self._answer(PROBE) is not None

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._write(ENCODERS["json"]({"id": method, "method": method, "params": params}) + b"\n")
        answer = self._answer(method)
        if answer is None or "error" in answer:
            raise WrongError(f"{method}: {answer}")
        result: dict[str, Any] = answer["result"]
        return result

    def _answer(self, wanted: str) -> dict[str, Any] | None:
        for line in self._lines:
            message = checked(line, "json")
            if message.get("id") == wanted:
                return message
        return None
