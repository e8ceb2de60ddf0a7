"""HTTP on the port: who gets in, and what the others are told (docs/wire-spec.md, "HTTP on the port")."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.transport.support import KEY, UPGRADE, RawClient, Served, masked_frame
from transport.admission import handshake
from transport.interface import TransportClosed
from transport.listen import Listener

pytestmark = pytest.mark.anyio

TRACES = [json.loads(line) for line in (Path(__file__).parent / "data" / "upstream.jsonl").read_text().splitlines()]
OURS = ("http/GET/livez",)
"""What upstream answers 404, and we do not: docs/compatibility.md."""
HTTP_TRACES = [
    trace
    for trace in TRACES
    if trace["name"].startswith("http/") and "auth-" not in trace["name"] and trace["name"] not in OURS
]


async def ask(served: Served | Listener, request: str | bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and what follows the head until the server closes."""
    listener = served.listener if isinstance(served, Served) else served
    client = await RawClient().connect(listener.port)
    await client.send(request.encode("latin-1") if isinstance(request, str) else request)
    head = (await client.head()).decode()
    status_line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    status = int(status_line.split()[1])
    body = b"" if status == 101 else await client.to_the_end()
    client.close()
    return status, headers, body


@pytest.mark.parametrize("trace", HTTP_TRACES, ids=lambda trace: trace["name"])
async def test_upstreams_answers(served: Served, trace: dict[str, list[str]]) -> None:
    """A client or a health check written for upstream sees the same status, text and headers."""
    await check_answer(served, trace["send"][0], trace)


async def check_answer(served: Served | Listener, request: str, trace: dict[str, list[str]]) -> None:
    """The answer to this request is the one of the trace."""
    expected_head, _, expected_body = trace["recv"][0].replace("<<timeout>>", "").partition("\r\n\r\n")
    status_line, *lines = expected_head.split("\r\n")
    expected = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    status, headers, body = await ask(served, request)
    assert status == int(status_line.split()[1])
    assert body.decode() == expected_body
    for name in ("content-type", "content-length", "allow", "sec-websocket-accept"):
        assert headers.get(name) == expected.get(name), name
    if status == 101:
        assert {name.lower() for name in headers} == set(expected), "nothing beyond what upstream says"
        assert headers["connection"].lower() == "upgrade"
        assert headers["upgrade"] == "websocket"
    else:
        assert headers["connection"] == "close"
        assert "date" in headers


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/ws", "/readyz/", "//", "/Readyz", "*"])
async def test_other_paths(served: Served, path: str) -> None:
    """Nothing but / and /readyz exists, for an upgrade or without."""
    assert await ask(served, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n") == (404, *anything())
    assert (await ask(served, UPGRADE.replace(b"GET / ", f"GET {path} ".encode())))[0] == 404


def anything() -> tuple[object, object]:
    class Any:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    return Any(), b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "get"])
@pytest.mark.parametrize("body", ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"])
async def test_readyz_knows_two_methods(served: Served, method: str, body: str) -> None:
    """A monitor with a wrong method, body or none, is told which are right."""
    request = f"{method} /readyz HTTP/1.1\r\nHost: x\r\n{body}\r\n" + ("hello" if "Length" in body else "")
    status, headers, text = await ask(served, request)
    assert (status, headers["allow"], text) == (405, "GET,HEAD", b"")


@pytest.mark.parametrize("origin", ["http://evil", "null", "http://localhost", "", "file://"])
@pytest.mark.parametrize(
    "request_line", ["GET / HTTP/1.1", "GET /readyz HTTP/1.1", "POST /readyz HTTP/1.1", "GET /x HTTP/1.1"]
)
async def test_web_pages_stay_out(served: Served, origin: str, request_line: str) -> None:
    """Any Origin at all is a browser, and a page that reaches a loopback port would get a shell."""
    upgrade = UPGRADE.decode().partition("\r\n")[2]
    status, _, body = await ask(served, f"{request_line}\r\noRiGiN: {origin}\r\n{upgrade}")
    assert (status, body) == (403, b"")
    assert served.authorized == 0
    assert not served.connections


UPGRADE_HEADERS = {
    "Host": "x",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"Connection": None}, 400, "Connection header did not include 'upgrade'"),
        ({"Connection": "keep-alive"}, 400, "Connection header did not include 'upgrade'"),
        ({"Connection": "keep-alive, uPgRaDe"}, 101, ""),
        ({"Upgrade": None}, 400, "`Upgrade` header did not include 'websocket'"),
        ({"Upgrade": "h2c"}, 400, "`Upgrade` header did not include 'websocket'"),
        ({"Upgrade": "WebSocket"}, 101, ""),
        ({"Sec-WebSocket-Version": None}, 400, "`Sec-WebSocket-Version` header did not include '13'"),
        ({"Sec-WebSocket-Version": "14"}, 400, "`Sec-WebSocket-Version` header did not include '13'"),
        ({"Sec-WebSocket-Key": None}, 400, "`Sec-WebSocket-Key` header missing"),
        ({"Content-Length": "5"}, 400, "A WebSocket upgrade has no body"),
        ({"Content-Length": "0"}, 101, ""),
        ({"Sec-WebSocket-Protocol": "exec-server.msgpack, foo"}, 101, ""),
        ({"Sec-WebSocket-Extensions": "permessage-deflate"}, 101, ""),
        ({"Authorization": "Bearer x"}, 101, ""),
    ],
)
async def test_upgrade_headers(served: Served, change: dict[str, str | None], status: int, text: str) -> None:
    """Who builds a client by hand learns which header is wrong; nothing is selected that was only offered."""
    headers = {**UPGRADE_HEADERS, **change}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    got, answered, body = await ask(served, "\r\n".join(["GET / HTTP/1.1", *lines, "", ""]))
    assert (got, body.decode()) == (status, text)
    assert "sec-websocket-protocol" not in answered
    assert "sec-websocket-extensions" not in answered


@pytest.mark.parametrize("key", ["short", "dGhlIHNhbXBsZSBub25jZQ==" + "AAAA", "????????????????????????"])
async def test_key_that_is_no_key(served: Served, key: str) -> None:
    """A handshake that cannot be completed is refused, not left hanging."""
    assert (await ask(served, UPGRADE.decode().replace(KEY, key)))[0] == 400


async def test_authorize_judges_upgrades_alone(served: Served) -> None:
    """The token check sees every upgrade that would succeed, and never stands before a health check."""
    served.refuse = "missing websocket bearer token"
    assert (await ask(served, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200
    assert (await ask(served, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 400
    assert served.authorized == 0
    status, headers, body = await ask(served, UPGRADE)
    assert (status, body) == (401, b"missing websocket bearer token")
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert served.authorized == 1
    assert not served.connections


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello: no blank line will ever come
        b"\x00\x01\x02\r\n\r\n",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b'{"id":1,"method":"initialize"}\n',
    ],
)
async def test_not_http(served: Served, garbage: bytes) -> None:
    """Another protocol on the port gets an answer at once, and does not sit there until it times out."""
    client = await RawClient().connect(served.listener.port)
    await client.send(garbage)
    answer = await asyncio.wait_for(client.to_the_end(), 5)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"connection: close\r\n" in answer
    client.close()


async def test_head_is_bounded(served: Served) -> None:
    """A client that sends headers without end costs 16 KiB, and is told."""
    client = await RawClient().connect(served.listener.port)
    await client.send(b"GET / HTTP/1.1\r\nX: " + b"a" * handshake.HEAD_LIMIT)
    assert (await client.to_the_end()).startswith(b"HTTP/1.1 431 ")
    client.close()
    padding = b"X: " + b"a" * 8000 + b"\r\n"
    assert (await ask(served, UPGRADE[:-2] + padding + b"\r\n"))[0] == 101
    assert (await ask(served, UPGRADE[:-2] + padding * 3 + b"\r\n"))[0] == 431


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_head_is_timed(served: Served, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    """A connection that never asks for anything, or ever so slowly, does not hold a descriptor for ever."""
    monkeypatch.setattr(handshake, "HEAD_SECONDS", 0.2)
    client = await RawClient().connect(served.listener.port)
    await client.send(begun)
    try:
        answer = await asyncio.wait_for(client.to_the_end(), 5)
    except ConnectionResetError:
        answer = b""
    assert answer[:12] == (b"HTTP/1.1 408" if begun else b"")
    client.close()


async def test_head_in_single_bytes_with_frames_behind_it(served: Served) -> None:
    """The handshake does not depend on how the network cuts it, and what comes right behind it is not lost."""
    client = await RawClient().connect(served.listener.port)
    for byte in UPGRADE:
        await client.send(bytes((byte,)))
    assert (await client.head()).startswith(b"HTTP/1.1 101")
    other = await RawClient().connect(served.listener.port)
    await other.send(UPGRADE + masked_frame(0x81, b"{}"))
    first, second = await served.accepted(), await served.accepted()
    await second.until(lambda: second.messages == [b"{}"])
    assert first.messages == []
    client.close()
    other.close()


async def test_gone_before_the_upgrade(served: Served) -> None:
    """A port scan leaves nothing behind."""
    client = await RawClient().connect(served.listener.port)
    client.close()
    client = await RawClient().connect(served.listener.port)
    await client.send(b"GET / HT")
    client.reset()
    assert (await ask(served, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200
    assert not served.connections


async def test_upgraded_connection_ends_once(served: Served) -> None:
    """An upgrade gives exactly one connection to whoever serves it, and one end."""
    client = await RawClient().upgrade(served.listener.port)
    connection = await served.accepted()
    client.close()
    await connection.until_closed()
    assert connection.count(TransportClosed) == 1
