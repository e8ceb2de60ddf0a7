"""Listen URLs and listening sockets (docs/wire-spec.md, "The program")."""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
import socket
import sys

import pytest

from tests.transport.support import RawClient, Recorder, masked_frame
from transport import listen
from transport.listen import (
    Listener,
    ListenUrlError,
    StdioUrl,
    WebSocketUrl,
    open_listening_socket,
    parse_listen_url,
    serve_websocket,
)
from transport.websocket import WebSocketTransport


@pytest.mark.parametrize("text", ["stdio", "stdio://"])
def test_stdio_urls(text: str) -> None:
    """Both spellings that clients use mean stdio."""
    assert parse_listen_url(text) == StdioUrl()


@pytest.mark.parametrize(
    "text", ["ws://127.0.0.1:0", "ws://127.0.0.1:65535", "ws://127.255.0.1:80", "ws://[::1]:0", "ws://[::1]:4500"]
)
def test_websocket_urls(text: str) -> None:
    """What is accepted is shown again as it was given."""
    assert str(parse_listen_url(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "ws://localhost:0",
        "ws://127.0.0.1",
        "ws://127.0.0.1:",
        "ws://127.0.0.1:0/",
        "ws://127.0.0.1:0/path",
        "ws://127.0.0.1:65536",
        "ws://127.0.0.1:-1",
        "ws://127.0.0.1:+1",
        "ws://127.1:0",
        "ws://127.0.0.256:0",
        "ws://::1:0",
        "ws://[127.0.0.1]:0",
        "ws://[::1%lo]:0",
        "ws://[::1]",
        "ws://user@127.0.0.1:0",
        "ws://127.0.0.1:0 ",
        "ws://127.0.0.1:٣",
        "ws://",
    ],
)
def test_invalid_websocket_urls(text: str) -> None:
    """A typo is refused with upstream's words, and never listens on something that was not meant."""
    with pytest.raises(ListenUrlError) as caught:
        parse_listen_url(text)
    assert str(caught.value) == f"invalid websocket --listen URL `{text}`; expected `ws://IP:PORT`"


@pytest.mark.parametrize(
    "text", ["", "tcp://127.0.0.1:0", "WS://127.0.0.1:0", "WSS://127.0.0.1:0", "stdio:///", "STDIO", "unix:/x"]
)
def test_unsupported_urls(text: str) -> None:
    """Another scheme is refused, in words that begin as upstream's."""
    with pytest.raises(ListenUrlError) as caught:
        parse_listen_url(text)
    assert str(caught.value).startswith(f"unsupported --listen URL `{text}`; expected `ws://IP:PORT` or `stdio`")


@pytest.mark.parametrize("text", ["unix://", "unix://relative", "unix:///run/", "unix:///a\0b"])
def test_invalid_unix_urls(text: str) -> None:
    """A path that means another place from another folder, or none."""
    with pytest.raises(ListenUrlError, match="expected `unix:///PATH`"):
        parse_listen_url(text)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("ws://0.0.0.0:0", False),
        ("ws://10.0.0.1:80", False),
        ("wss://[::]:0", False),
        ("ws://[::ffff:10.0.0.1]:0", False),
        ("ws://[fe80::1]:0", False),
        ("ws://[::ffff:127.0.0.1]:0", True),
        ("wss://127.9.9.9:0", True),
        ("ws://[::1]:0", True),
    ],
)
def test_the_network_is_told_from_the_machine(text: str, loopback: bool) -> None:
    """An address that others reach, taken for one that they do not, is a shell for everybody."""
    url = parse_listen_url(text)
    assert isinstance(url, WebSocketUrl)
    assert url.is_loopback is loopback
    assert str(url) == text


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_listens_where_it_says(anyio_backend: object, host: str) -> None:
    """The URL that is printed is the one that answers, and closing frees the port."""
    listener = serve_websocket(WebSocketUrl(host, 0), lambda transport: None)
    url = parse_listen_url(listener.url)
    assert isinstance(url, WebSocketUrl)
    assert url.port == listener.port != 0
    reader, writer = await asyncio.open_connection(host, url.port)
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    writer.close()
    with pytest.raises(OSError, match="in use"):
        open_listening_socket(host, url.port)
    listener.close()
    listener.close()
    await listener.wait_closed(5)
    open_listening_socket(host, url.port).close()


def test_children_do_not_inherit_the_socket() -> None:
    """A child that outlives the server must not hold its port."""
    with open_listening_socket("127.0.0.1", 0) as sock:
        assert fcntl.fcntl(sock, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        assert not sock.getblocking()


@pytest.mark.anyio
async def test_connections_outlive_the_listener(anyio_backend: object) -> None:
    """Stopping to listen cuts nobody off; waiting for the end has an end."""
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()
    listener = serve_websocket(WebSocketUrl("127.0.0.1", 0), lambda t: accepted.put_nowait(Recorder(t)))
    raw = await RawClient().upgrade(listener.port)
    connection = await accepted.get()
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        await RawClient().connect(listener.port)
    await raw.send(masked_frame(0x81, b"still here"))
    await connection.until(lambda: connection.messages)
    await listener.wait_closed(0.01)
    assert await connection.until_closed() == "server is shutting down"


@pytest.mark.anyio
async def test_out_of_descriptors(anyio_backend: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the table of descriptors is full, the listener neither spins nor dies, and serves when there is room."""
    monkeypatch.setattr(listen, "ACCEPT_RETRY_SECONDS", 0.1)
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()
    listener = serve_websocket(WebSocketUrl("127.0.0.1", 0), lambda t: accepted.put_nowait(Recorder(t)))
    first = await RawClient().upgrade(listener.port)
    late = RawClient()
    attempts = 0
    third = asyncio.Event()
    accept = Listener._accept

    def counted(self: Listener) -> None:
        nonlocal attempts
        attempts += 1
        accept(self)
        if attempts == 3:
            third.set()

    monkeypatch.setattr(Listener, "_accept", counted)
    loop = asyncio.get_running_loop()
    loop.remove_reader(listener._socket.fileno())
    loop.add_reader(listener._socket.fileno(), listener._accept)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    fillers: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, hard))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                fillers.append(os.open("/dev/null", os.O_RDONLY))
        await late.connect(listener.port)  # the kernel completes the handshake; nobody can accept
        started = loop.time()
        await third.wait()
        assert loop.time() - started > 0.15
        assert (await accepted.get()).closed is None, "connections that exist are served all the while"
    finally:
        for fd in fillers:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await late.send(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await asyncio.wait_for(late.head(), 5)).startswith(b"HTTP/1.1 200 OK")
    await first.send(masked_frame(0x88, b""))
    listener.close()
    await listener.wait_closed(5)


@pytest.mark.anyio
async def test_many_at_once(anyio_backend: object) -> None:
    """A crowd that connects in one moment is served, none of them refused."""
    accepted: asyncio.Queue[WebSocketTransport] = asyncio.Queue()
    listener = serve_websocket(WebSocketUrl("127.0.0.1", 0), accepted.put_nowait)
    clients = await asyncio.gather(*(RawClient().upgrade(listener.port) for _ in range(300)))
    assert len({(await accepted.get()).peer for _ in range(300)}) == 300
    for raw in clients:
        raw.close()
    listener.close()
    await listener.wait_closed(5)


def test_import_is_light() -> None:
    """Serving must not pay for the library's asyncio client and server at every start."""
    import subprocess

    code = "import sys, transport.listen, transport.stdio; print('websockets.asyncio' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"False\n"
