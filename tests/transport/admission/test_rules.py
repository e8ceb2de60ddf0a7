"""Who may connect without a token: the user's own programs, and nobody else on the machine or the web."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transport.support import UPGRADE, RawClient
from tests.transport.test_http import ask
from transport.admission import peer_user
from transport.admission.peer_user import Endpoint, TcpPeers, is_trusted
from transport.admission.rules import Admission, host_name
from transport.listen import Listener, UnixUrl, WebSocketUrl, open_tcp_peers, serve_websocket

pytestmark = pytest.mark.anyio

Serve = Callable[..., Listener]
NOBODY = 65534
CONNECT = """
import socket, sys
if sys.argv[1].startswith("/"):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(sys.argv[1])
else:
    sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.sendall(sys.stdin.buffer.read())
sys.stdout.buffer.write(sock.recv(65536))
"""


@pytest.fixture
async def serve(anyio_backend: object) -> AsyncIterator[Serve]:
    listeners = []

    def start(url: WebSocketUrl | UnixUrl | None = None, **rules: Any) -> Listener:
        url = WebSocketUrl("127.0.0.1", 0) if url is None else url
        listeners.append(serve_websocket(url, lambda transport: None, admission=Admission(**rules)))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.close()
        await listener.wait_closed(0)


async def of_another_user(where: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """What a process is told that belongs to another user than the server."""
    if os.getuid() == 0:
        user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    else:
        user = {}
        monkeypatch.setattr(peer_user.os, "geteuid", lambda: os.getuid() + 1)
    argv = ["/usr/bin/env", "python3", "-c", CONNECT, where]
    done = await asyncio.to_thread(
        subprocess.run, argv, input=UPGRADE, stdout=subprocess.PIPE, cwd="/", check=True, **user
    )
    return done.stdout


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil", ""])
@pytest.mark.parametrize("path", ["/", "/readyz"])
async def test_names_that_were_pointed_at_us(serve: Serve, host: str, path: str) -> None:
    """Lost: the machine, to a web page whose name resolves to 127.0.0.1 (DNS rebinding)."""
    listener = serve()
    request = UPGRADE.replace(b"Host: 127.0.0.1", f"Host: {host}".encode()).replace(b"GET / ", f"GET {path} ".encode())
    assert (await ask(listener, request))[0] == 403
    assert (await ask(listener, request.replace(f"Host: {host}\r\n".encode(), b"")))[0] == 403
    assert (await ask(listener, request.replace(b"Host:", b"Host: localhost\r\nHost:")))[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:9", "LOCALHOST:22", "[::1]:9", "named.example:1"])
async def test_names_that_are_ours(serve: Serve, host: str) -> None:
    """Lost: the user's own programs, also through a forwarded port."""
    listener = serve(hosts=frozenset(["named.example"]))
    assert (await ask(listener, UPGRADE.replace(b"Host: 127.0.0.1", f"Host: {host}".encode())))[0] == 101


async def test_the_address_that_was_connected_to_is_ours(serve: Serve) -> None:
    """Lost: who listens on one of the other loopback addresses."""
    listener = serve(WebSocketUrl("127.0.0.7", 0))
    client = RawClient()
    await asyncio.get_running_loop().sock_connect(client.socket, ("127.0.0.7", listener.port))
    await client.send(UPGRADE.replace(b"Host: 127.0.0.1", b"Host: 127.0.0.7:1"))
    assert (await client.head()).startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize(
    ("header", "name"),
    [("a:1", "a"), ("[::1]:2", "::1"), ("[::1]", "::1"), ("[::1", None), ("[::1]x", None), ("", None), (":1", None)],
)
def test_host_headers(header: str, name: str | None) -> None:
    """A header that can be read in two ways lets in whoever knows the other one."""
    assert host_name(header) == name


@pytest.mark.parametrize(
    "origin", ["http://evil", "http://page.example:81", "null", "", "http://page.example, http://x"]
)
async def test_other_origins(serve: Serve, origin: str, caplog: pytest.LogCaptureFixture) -> None:
    """Lost: the machine, to any web page, because one was let in."""
    listener = serve(origins=frozenset(["http://page.example"]))
    request = UPGRADE.replace(b"\r\n\r\n", f"\r\nOrigin: {origin}\r\n\r\n".encode())
    assert (await ask(listener, request))[::2] == (403, b"")
    assert "refused 127.0.0.1:" in caplog.text
    assert (await ask(listener, request.replace(b"Origin:", b"Origin: http://page.example\r\nOrigin:")))[0] == 403
    allowed = UPGRADE.replace(b"\r\n\r\n", b"\r\nOrigin: HTTP://page.example\r\n\r\n")
    assert (await ask(listener, allowed))[0] == 101


async def test_another_user_of_the_machine(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Lost: the user's files, to everybody with an account."""
    told = await of_another_user(str(serve().port), monkeypatch)
    assert told.startswith(b"HTTP/1.1 403 ") and b"--allow-other-users" in told
    assert "a process of user " in caplog.text
    assert (await of_another_user(str(serve(own_user_only=False).port), monkeypatch)).startswith(b"HTTP/1.1 101 ")


async def test_a_peer_that_let_go(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: certainty who it was. The kernel says uid 0 of a socket that nobody holds any more."""
    peers = TcpPeers()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        assert peers.uid_of_peer(accepted) == os.getuid()
        client.close()
        assert peers.uid_of_peer(accepted) is None
        accepted.close()
    peers.close()
    assert not is_trusted(None)


async def test_only_the_exact_pair_of_addresses_counts() -> None:
    """Lost: certainty who it was. Where there is no such connection, the kernel tells of the listener."""
    peers = TcpPeers()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        here = Endpoint(socket.inet_aton("127.0.0.1"), port)
        peers.check(server)
        assert peers.uid_of(socket.AF_INET, here, Endpoint(here.address, 1)) is None
        assert peers.uid_of(socket.AF_INET, Endpoint(here.address, 1), here) is None
    peers.close()
    with pytest.raises(OSError, match=r"sock_diag.*--ws-auth, or --allow-other-users"):
        open_tcp_peers(server_that_is_gone())


def server_that_is_gone() -> Any:
    class Gone:
        family = socket.AF_INET

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", 1

    return Gone()


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
async def test_clients_with_sockets_for_both_families(family: int) -> None:
    """Lost: programs in Java and others, whose IPv4 connections are IPv6 sockets."""
    peers = TcpPeers()
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=family) as server, socket.socket(socket.AF_INET6) as client:
        client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        client.connect(("::ffff:127.0.0.1" if family == socket.AF_INET else "::1", server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            assert peers.uid_of_peer(accepted) == os.getuid()
    peers.close()


async def test_one_question_a_connection(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: the time of everybody, if each connect costs a walk over all sockets of the machine."""
    asked = []
    ask_kernel = TcpPeers._ask

    def counted(self: TcpPeers, *args: Any) -> bytes:
        asked.append(len(answer := ask_kernel(self, *args)))
        return answer

    listener = serve()
    monkeypatch.setattr(TcpPeers, "_ask", counted)
    for _ in range(20):
        await RawClient().upgrade(listener.port)
    assert len(asked) == 20 and max(asked) < 300


async def through(path: Path, request: bytes = UPGRADE) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return head


async def test_a_unix_socket(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: who may connect is what the file says, from its first moment on, and what the kernel says of the peer."""
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:3]:
        if folder.stat().st_uid == os.getuid() and str(folder) != "/tmp":
            folder.chmod(0o755)
    path = tmp_path / "s"
    mode = os.umask(0)
    try:
        listener = serve(UnixUrl(str(path)), hosts=None)
    finally:
        os.umask(mode)
    assert path.stat().st_mode & 0o7777 == 0o600
    assert listener.url == f"unix://{path}"
    assert (await through(path, UPGRADE.replace(b"Host: 127.0.0.1", b"Host: x"))).startswith(b"HTTP/1.1 101 ")
    page = UPGRADE.replace(b"\r\n\r\n", b"\r\nOrigin: http://x\r\n\r\n")
    assert (await through(path, page)).startswith(b"HTTP/1.1 403 ")
    path.chmod(0o666)  # somebody means well
    assert b"--allow-other-users" in await of_another_user(str(path), monkeypatch)
    listener.close()
    assert not path.exists()
    lenient = tmp_path / "t"
    serve(UnixUrl(str(lenient)), own_user_only=False)
    assert lenient.stat().st_mode & 0o777 == 0o666
    assert (await of_another_user(str(lenient), monkeypatch)).startswith(b"HTTP/1.1 101 ")


async def test_the_file_of_a_living_server_is_kept(serve: Serve, tmp_path: Path) -> None:
    """Lost: a server that runs, to one that is started by mistake."""
    path = tmp_path / "s"
    serve(UnixUrl(str(path)))
    with pytest.raises(OSError, match="in use"):
        serve(UnixUrl(str(path)))
    assert (await through(path)).startswith(b"HTTP/1.1 101 ")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OSError, match="in use"):
        serve(UnixUrl(str(tmp_path / "file")))
    assert (tmp_path / "file").read_text() == "kept"


async def test_the_file_of_a_dead_server_is_replaced(serve: Serve, tmp_path: Path) -> None:
    """Lost: every start after a crash."""
    path = tmp_path / "s"
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.bind({str(path)!r}); s.listen()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert path.is_socket()
    first = serve(UnixUrl(str(path)))
    assert (await through(path)).startswith(b"HTTP/1.1 101 ")
    path.unlink()
    serve(UnixUrl(str(path)))
    first.close()
    assert (await through(path)).startswith(b"HTTP/1.1 101 "), "the file is another server's by now"


async def test_a_path_that_is_too_long(serve: Serve, tmp_path: Path) -> None:
    """Lost: knowing why it does not run."""
    with pytest.raises(OSError, match="File name too long"):
        serve(UnixUrl(str(tmp_path / ("x" * 200))))
