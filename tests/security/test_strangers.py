"""Strangers who want to keep the owner out, or learn what they should not."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from actors.system.http.request import Outgoing, redirected
from exec_server.server.access import authenticator_of
from exec_server.server.config_sources import load
from exec_server.server.metrics_port import AT_ONCE, MetricsPort
from protocol.web_url import parse_url
from tests.support.client import PATIENCE_S
from tests.transport.support import UPGRADE
from transport import listen, websocket
from transport.admission.auth import CapabilityToken
from transport.admission.peer_user import TcpPeers
from transport.admission.rules import Admission
from transport.admission.throttle import HELD, FailureThrottle
from transport.listen import Listener, WebSocketUrl, serve_websocket
from transport.sockets import open_unix_socket, remove_unix_socket, unix_identity

pytestmark = pytest.mark.anyio


class Peer(NamedTuple):
    """The other end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@pytest.fixture
async def listener(anyio_backend: object) -> AsyncIterator[Listener]:
    found = serve_websocket(
        WebSocketUrl("127.0.0.1", 0), lambda transport: None, admission=Admission(max_connections=5)
    )
    yield found
    found.close()
    await found.wait_closed(0)


async def connect(listener: Listener) -> Peer:
    return Peer(*await asyncio.open_connection("127.0.0.1", listener.port))


async def ask(listener: Listener, head: bytes) -> bytes:
    """The first line of the answer, b"" for none."""
    client = await connect(listener)
    try:
        client.writer.write(head)
        async with asyncio.timeout(PATIENCE_S):
            return await client.reader.readline()
    except ConnectionResetError:
        return b""
    finally:
        client.writer.close()


async def test_silent_connections_keep_nobody_out(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """M3. Lost: the way in, for as long as somebody opens connections and says nothing."""
    monkeypatch.setattr(listen, "UNDECIDED", 20)
    silent = [await connect(listener) for _ in range(60)]
    for _ in range(10):
        assert b" 101 " in await ask(listener, UPGRADE)
        assert b" 200 " in await ask(listener, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        silent.append(await connect(listener))
    assert len(listener._undecided) <= 21
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await silent[0].reader.readexactly(1)
    for each in silent:
        each.writer.close()


async def test_those_who_are_in_make_no_room(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """M3. Lost: the connection of an owner, to strangers who come after it."""
    monkeypatch.setattr(listen, "UNDECIDED", 5)
    async with AsyncExitStack() as stack:
        owners = [await connect(listener) for _ in range(5)]
        for owner in owners:
            stack.callback(owner.writer.close)
            owner.writer.write(UPGRADE)
            assert b" 101 " in await owner.reader.readline()
        for _ in range(20):
            stack.callback((await connect(listener)).writer.close)
        assert b" 503 " in await ask(listener, UPGRADE)
        assert sum(each.upgraded for each in listener._living) == 5


async def test_few_of_those_who_were_refused_linger(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """M3. Lost: descriptors, to strangers who read their refusal for seconds."""
    monkeypatch.setattr(websocket, "LINGERING", 3)
    clients = [await connect(listener) for _ in range(20)]
    for client in clients:
        client.writer.write(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            assert b" 404 " in await client.reader.readline(), "they are told all the same"
    assert listener._admission.lingering <= 3
    for client in clients:
        client.writer.close()
    async with asyncio.timeout(PATIENCE_S):
        while listener._living:
            listener._all_ended.clear()
            await listener._all_ended.wait()
    assert listener._admission.lingering == 0


async def test_no_wrong_token_is_answered_at_once() -> None:
    """L3. Lost: the time that a guess costs, to whoever makes more than so many at once."""
    brake = FailureThrottle()
    delays = [brake.fail("10.0.0.1", 0.0)[0] for _ in range(HELD * 3)]
    assert 0.0 not in delays and delays[:2] == [0.1, 0.2] and delays[HELD:] == [None] * HELD * 2
    admission = Admission(authenticator=CapabilityToken(bytes(32)), own_user_only=False)
    found = serve_websocket(WebSocketUrl("127.0.0.1", 0), lambda transport: None, admission=admission)
    try:
        for _ in range(HELD):
            admission.brake.fail("10.0.0.1", asyncio.get_running_loop().time() + 1e9)
        admission.brake._held_until = [1e18] * HELD
        wrong = UPGRADE[:-2] + b"Authorization: Bearer x\r\n\r\n"
        assert await ask(found, wrong) == b""
    finally:
        found.close()
        await found.wait_closed(0)


@pytest.mark.parametrize(("token", "warned"), [("letmein", True), ("x" * 15, True), ("x" * 16, False)])
def test_a_short_token_is_told_of(token: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """L3. Lost: knowing that a token can be guessed, before somebody does."""
    (tmp_path / "token").write_text(token)
    flags = ["--ws-auth", "capability-token", "--ws-token-file", str(tmp_path / "token")]
    with caplog.at_level(logging.WARNING):
        assert authenticator_of(load(flags, {})) is not None
    assert ("can be guessed" in caplog.text) is warned and token not in caplog.text


async def test_silence_keeps_nobody_from_the_metrics(anyio_backend: object) -> None:
    """L4. Lost: a server that its orchestrator restarts, since somebody holds its port for health."""
    port = MetricsPort(None, "")
    where = urlsplit(await port.listen(WebSocketUrl("127.0.0.1", 0)))
    silent = []
    try:
        for _ in range(AT_ONCE * 2):
            silent.append(await asyncio.open_connection(where.hostname, where.port))
        for _ in range(3):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(PATIENCE_S):
                assert b" 200 " in await reader.readline()
            writer.close()
    finally:
        for _, writer in silent:
            writer.close()
        await port.close()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/", "/nothing"])
@pytest.mark.parametrize(
    "site", [b"cross-site", b"same-site", b"CROSS-SITE", b"", b"none\r\nSec-Fetch-Site: cross-site"]
)
async def test_a_page_learns_nothing_by_an_image(site: bytes, path: str, listener: Listener) -> None:
    """L8. Lost: that no web page can tell whether a server is there."""
    head = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: %s\r\nSec-Fetch-Dest: image\r\n\r\n"
    assert b" 403 " in await ask(listener, head % (path.encode(), site))


async def test_a_person_may_look(listener: Listener) -> None:
    """L8. Lost: `/livez` typed into a browser."""
    for site in (b"none", b"same-origin"):
        head = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: %s\r\nSec-Fetch-Dest: document\r\n\r\n"
        assert b" 200 " in await ask(listener, head % site)


OPENER = """
import os, sys
from transport.sockets import open_unix_socket, remove_unix_socket, unix_identity
path = sys.argv[1]
sys.stdin.buffer.read(1)
for _ in range(100):
    try:
        sock = open_unix_socket(path, 0o600)
    except OSError:
        continue
    before = unix_identity(path)
    os.write(1, b"+")
    assert unix_identity(path) == before, "the file of a living server was replaced"
    sock.close()
    remove_unix_socket(path, before) if os.getpid() % 2 else None
"""


def test_of_many_servers_at_one_file_one_lives(tmp_path: Path) -> None:
    """L1. Several find the file of a dead server. Lost: the file of the one that was first, which lives."""
    argv = [sys.executable, "-c", OPENER, str(tmp_path / "s")]
    racing = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in "abcd"
    ]
    for each in racing:
        assert each.stdin is not None
        each.stdin.write(b"x")
        each.stdin.flush()
    opened = 0
    for each in racing:
        printed, said = each.communicate(timeout=PATIENCE_S)
        assert each.returncode == 0, said.decode()
        opened += len(printed)
    assert opened, "nobody ever got it"


def test_a_number_that_is_used_again_belongs_to_another(tmp_path: Path) -> None:
    """L1. Inode numbers are used again. Lost: the file of a server that lives, to one that ends."""
    path = str(tmp_path / "s")
    with closing(open_unix_socket(path, 0o600)) as living:
        remove_unix_socket(path, unix_identity(path))
        assert os.path.exists(path)
        living.close()
        remove_unix_socket(path, unix_identity(path))
        assert not os.path.exists(path)


def test_whose_a_connection_was_is_not_told_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """L2. A connection is reset before the kernel is asked, and its addresses are somebody else's by then.

    Lost: the right to connect, to whoever wins that race.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peers = TcpPeers()
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
        with server, closing(peers), client:
            assert peers.uid_of_peer(server) == os.geteuid()
            source = client.getsockname()
            ask = peers._ask

            def late(*args: object) -> bytes:
                """As if root had taken the addresses meanwhile."""
                answer = ask(*args)  # type: ignore[arg-type]
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.close()
                return answer

            monkeypatch.setattr(peers, "_ask", late)
            assert peers.uid_of_peer(server) is None, source


def sent_on(url: str, location: str) -> dict[str, str]:
    """The headers that go to where a request is redirected."""
    headers = [("authorization", "secret"), ("cookie", "secret"), ("x-env", "secret")]
    request = Outgoing("GET", parse_url(url), headers, None, frozenset(("authorization", "cookie", "x-env")))
    following = redirected(request, 302, location)
    assert following is not None
    return dict(following.headers)


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("https://h:8443/a", "http://h:8443/a"),
        ("http://h:8443/a", "https://h:8443/a"),
        ("https://h/a", "https://g/a"),
        ("https://h/a", "https://h:444/a"),
    ],
)
def test_secrets_stay_with_their_origin(url: str, location: str) -> None:
    """L5. Lost: a token, in clear text on the network or at another host."""
    found = sent_on(url, location)
    assert not {"authorization", "cookie", "x-env"} & set(found)
    assert sent_on("https://h/a", "/b")["authorization"] == "secret"


def test_a_path_is_not_told_to_another_host() -> None:
    """L5. Lost: the token in a path or query, to wherever a redirect leads."""
    assert sent_on("https://h:444/secret?token=x", "https://g/")["referer"] == "https://h:444/"
    assert sent_on("https://h/a?b", "/c")["referer"] == "https://h/a?b"
    assert "referer" not in sent_on("https://h/a", "http://h/a")
