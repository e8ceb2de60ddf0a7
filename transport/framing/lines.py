"""Lines of JSON out of a stream of bytes (docs/wire-spec.md, "stdio"). Pure."""

from __future__ import annotations

from collections import deque

from transport.framing.websocket import MAX_MESSAGE, is_utf8


class LineFramer:
    r"""Takes a stream in pieces of any size and gives its lines, without their ends (`\n` or `\r\n`).

    Lines of whitespace alone are left out. `failure` says what was wrong once a line is no UTF-8 or longer
    than `limit` bytes; nothing is read after that. `stopped` says that the last call left something for want
    of room.
    """

    __slots__ = ("_body", "_limit", "_rest", "failure", "stopped")

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._rest = b""  # lines that there was no room for
        self._body = bytearray()  # a line that has not ended
        self.failure: str | None = None
        self.stopped = False

    def read(self, data: bytes, inbox: deque[bytes], room: int) -> int:
        """Append at most `room` lines to `inbox`. Returns the number of bytes in them."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        appended = at = 0
        self.stopped = False
        while self.failure is None:
            end = data.find(b"\n", at)
            if end < 0:
                self._keep(data[at:])
                break
            if room <= 0:
                self._rest = data[at:]
                self.stopped = True
                break
            if self._body:
                self._keep(data[at:end])
                line = bytes(self._body)
                self._body.clear()
            else:
                line = data[at:end]
            at = end + 1
            got = self._append(line, inbox)
            appended += got
            room -= 1
        return appended

    def finish(self, inbox: deque[bytes]) -> int:
        """The stream has ended: a last line without an end counts, too."""
        line = bytes(self._body)
        self._body.clear()
        return self._append(line, inbox) if self.failure is None else 0

    def _keep(self, part: bytes) -> None:
        if len(self._body) + len(part) > self._limit + 1:  # one for a `\r`
            self.failure = f"a line may have {self._limit} bytes (max_message)"
            self._body.clear()
        else:
            self._body += part

    def _append(self, line: bytes, inbox: deque[bytes]) -> int:
        if self.failure is not None:
            return 0
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > self._limit:
            self.failure = f"a line may have {self._limit} bytes (max_message)"
            return 0
        if not line or line.isspace():
            return 0
        if not is_utf8(line):
            self.failure = "a line is not UTF-8"
            return 0
        inbox.append(line)
        return len(line)
