"""The real program with `--web`, and HTTP and WebSocket as a browser speaks them, or who pretends to be one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

_numbers = count(1)
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class PageServer(NamedTuple):
    """A server with a page; `origin` is that of the page, `code` what its URL has."""

    url: str
    origin: str
    code: str

    @property
    def host(self) -> str:
        return urlsplit(self.origin).netloc

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> tuple[HTTPResponse, bytes]:
        """One request on a connection of its own; the answer, and its body."""
        # Each from an address of its own, since wrong secrets of one address are answered later and later.
        source = (f"127.{next(_numbers) % 250}.0.1", 0)
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20, source_address=source)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def log_in(self, secret: str, kind: str = "Code", origin: str | None = None, **headers: str) -> str | None:
        """The cookie that a page gets for a secret, as it goes into a header; None if it gets none."""
        sent = {"Origin": origin or self.origin, "Authorization": f"{kind} {secret}", **headers}
        response, _body = self.request("POST", "/web/login", sent)
        given = response.getheader("Set-Cookie")
        assert (given is not None) == (response.status == 204)
        return None if given is None else given.partition(";")[0]

    def post(self, path: str, cookie: str, **headers: str) -> Any:
        """What the page asks for with its cookie, as JSON; the status where it gets none."""
        response, body = self.request("POST", path, {"Origin": self.origin, "Cookie": cookie, **headers})
        return json.loads(body) if response.status == 200 else response.status

    def upgrade_status(self, **headers: str) -> int:
        """The status that an upgrade is answered with: 101 if it is let in."""
        return self.request("GET", "/", {**UPGRADE, **headers})[0].status

    def upgrade(self, origin: str | None = None, cookie: str | None = None, **headers: str) -> ClientConnection:
        """A WebSocket. Raises InvalidStatus where it is refused."""
        sent = {**headers}
        if cookie is not None:
            sent["Cookie"] = cookie
        return connect(
            self.url,
            origin=origin,  # type: ignore[arg-type]
            additional_headers=sent,
            subprotocols=[Subprotocol("exec-server.v0")],
            compression=None,
            open_timeout=20,
            proxy=None,
        )


@contextmanager
def page_server(*options: str, listen: str = "ws://127.0.0.1:0") -> Iterator[PageServer]:
    """`exec-server serve --web`, until the end of the block."""
    argv = [sys.executable, "-m", "exec_server", "serve", "--web", "--listen", listen, *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            page, _, code = server.stdout.readline().strip().partition("/#code=")
            yield PageServer(url, page.rstrip("/"), code)
        finally:
            server.terminate()


def call(socket: ClientConnection, method: str, params: dict[str, Any] | None = None, number: int = 1) -> Any:
    """A request and its result, or its error."""
    socket.send(json.dumps({"id": number, "method": method, "params": params or {}}))
    while True:
        answer = json.loads(socket.recv(timeout=20))
        if answer.get("id") == number:
            return answer.get("result", answer.get("error"))


def initialize(socket: ClientConnection, **params: Any) -> Any:
    """The handshake; its result."""
    result = call(socket, "initialize", {"clientName": "test", "resumeSessionId": None, **params})
    socket.send(json.dumps({"method": "initialized"}))
    return result
