"""wss://: the same connections under TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from exec_server.server.access import AccessError, load_tls_files, tls_of
from exec_server.server.config import Config
from tests.transport.support import Recorder
from transport.admission.rules import Admission
from transport.listen import Listener, WebSocketUrl, serve_websocket

pytestmark = pytest.mark.anyio

Serve = Callable[[ssl.SSLContext], Listener]


class Files:
    """An authority, a server's certificate of it, and a client that trusts it."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        issued = self.authority.issue_cert("127.0.0.1")
        self.cert, self.key, self.ca = (str(folder / name) for name in ("cert.pem", "key.pem", "ca.pem"))
        issued.private_key_pem.write_to_path(self.key)
        for number, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(self.cert, append=number > 0)
        self.authority.cert_pem.write_to_path(self.ca)

    def server(self, **changes: Any) -> ssl.SSLContext:
        config = Config(**{"listen": "wss://127.0.0.1:0", "tls_cert": self.cert, "tls_key": self.key} | changes)
        context = tls_of(config, WebSocketUrl("127.0.0.1", 0, "wss"))
        assert context is not None
        return context

    def client(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def serve(anyio_backend: object) -> AsyncIterator[Serve]:
    listeners = []

    def start(context: ssl.SSLContext) -> Listener:
        url = WebSocketUrl("127.0.0.1", 0, "wss")
        echo = lambda transport: Recorder(transport).echo()  # noqa: E731
        listeners.append(serve_websocket(url, echo, admission=Admission(), tls=context))
        return listeners[-1]

    yield start
    for listener in listeners:
        listener.close()
        await listener.wait_closed(0)


async def test_messages_large_and_small(files: Files, serve: Serve) -> None:
    """Lost: what is queued when it is more than TLS takes at once."""
    listener = serve(files.server())
    assert listener.url.startswith("wss://127.0.0.1:")
    async with connect(listener.url, ssl=files.client(), max_size=None, compression=None, proxy=None) as socket:
        for size in (0, 10, 1 << 16, 20 << 20):
            await socket.send("x" * size)
            assert len(await socket.recv()) == size
        await socket.close()
        assert socket.close_code == 1000


async def test_who_does_not_speak_tls(files: Files, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """Lost: an end to connections that are no use, and a word about them."""
    listener = serve(files.server())
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b"HTTP" not in await reader.read()
    writer.close()
    listener.close()
    await listener.wait_closed(5)
    assert "refused 127.0.0.1:" in caplog.text and "no TLS" in caplog.text


async def test_old_versions_are_refused(files: Files, serve: Serve) -> None:
    """Lost: secrecy, to whoever can make two parties agree on TLS 1.1."""
    listener = serve(files.server())
    old = files.client()
    with pytest.warns(DeprecationWarning):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connect(listener.url, ssl=old, proxy=None)


async def test_clients_need_a_certificate_where_one_is_asked_for(files: Files, serve: Serve) -> None:
    """Lost: the only lock on the door."""
    listener = serve(files.server(tls_client_ca=files.ca))
    strangers = trustme.CA()
    for context, issuer in ((files.client(), None), (files.client(), strangers)):
        if issuer is not None:
            issuer.issue_cert("client").configure_cert(context)
        with pytest.raises((ssl.SSLError, ConnectionError, WebSocketException)):
            # TLS 1.3 tells a client of its certificate only after its own part of the handshake.
            async with connect(listener.url, ssl=context, proxy=None) as socket:
                await socket.recv()
    context = files.client()
    files.authority.issue_cert("client").configure_cert(context)
    async with connect(listener.url, ssl=context, compression=None, proxy=None) as socket:
        await socket.send("x")
        assert await socket.recv() == "x"


async def test_a_new_certificate_without_a_restart(files: Files, serve: Serve, tmp_path: Path) -> None:
    """Lost: sessions, each time that a certificate is renewed."""
    context = files.server()
    listener = serve(context)
    renewed = Files(tmp_path)
    async with connect(listener.url, ssl=files.client(), compression=None, proxy=None) as old:
        load_tls_files(context, Config(tls_cert=renewed.cert, tls_key=renewed.key))
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(listener.url, ssl=files.client(), proxy=None)
        async with connect(listener.url, ssl=renewed.client(), compression=None, proxy=None):
            await old.send("x")
            assert await old.recv() == "x"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tls_cert": ""}, "`--tls-cert` is required for `--listen wss://127.0.0.1:0`"),
        ({"tls_cert": "/nowhere/x.pem"}, "cannot use TLS file /nowhere/x.pem"),
        ({"tls_client_ca": "/nowhere/ca.pem"}, "cannot use TLS file /nowhere/ca.pem: No such file"),
        ({"tls_key": "/dev/null"}, "cannot use TLS file"),
        ({"tls_client_ca": "/dev/null"}, "cannot use TLS file /dev/null"),
    ],
)
def test_files_that_cannot_be_used(files: Files, settings: dict[str, str], said: str) -> None:
    """Lost: knowing why it does not run."""
    with pytest.raises(AccessError) as caught:
        files.server(**settings)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_tls_files_are_not_ignored() -> None:
    """Lost: secrecy, where somebody wrote ws:// and meant wss://."""
    with pytest.raises(AccessError, match="need a `--listen wss://IP:PORT`"):
        tls_of(Config(tls_cert="x"), WebSocketUrl("127.0.0.1", 0))
