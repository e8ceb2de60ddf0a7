"""Clients of servers that do not let everybody in, or are not on TCP."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from exec_server import ConnectFailed, Unauthorized, connect_websocket
from tests.support.program import command, launched, program

pytestmark = pytest.mark.anyio


async def test_a_token_lets_in(tmp_path: Path) -> None:
    """Lost: every server that is worth protecting. A wrong token is told at once, and is in no text."""
    (tmp_path / "token").write_text("swordfish\n")
    with program("--ws-auth", "capability-token", "--ws-token-file", str(tmp_path / "token")) as server:
        async with connect_websocket(server.url, token="swordfish") as client:
            assert (await client.run(["true"])).returncode == 0
            assert "swordfish" not in repr(vars(client)) + repr(vars(client._session))
        for token in (None, "sardine"):
            with pytest.raises(Unauthorized, match="HTTP status 401") as refused:
                async with connect_websocket(server.url, token=token):
                    pass
            assert "sardine" not in str(refused.value)


async def test_a_unix_socket(tmp_path: Path) -> None:
    """Lost: the servers whose lock is the file system."""
    url = f"unix://{tmp_path}/socket"
    with launched(command("--listen", url), stdout=asyncio.subprocess.PIPE) as server:
        assert server.stdout is not None
        await asyncio.to_thread(server.stdout.readline)
        async with connect_websocket(url) as client:
            assert (await client.run(["echo", "hi"])).stdout == b"hi\n"


async def test_tls(tmp_path: Path) -> None:
    """Lost: servers on a network; or the certainty which server it is."""
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    argv = command("--listen", "wss://127.0.0.1:0", "--tls-cert", str(tmp_path / "server.pem"))
    with launched(argv, stdout=asyncio.subprocess.PIPE) as server:
        assert server.stdout is not None
        url = (await asyncio.to_thread(server.stdout.readline)).decode().strip()
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        async with connect_websocket(url, ssl=trusting) as client:
            assert (await client.run(["echo", "hi"])).stdout == b"hi\n"
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            async with connect_websocket(url):
                pass


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:80", "ws://"])
async def test_what_is_no_url_is_told(url: str) -> None:
    with pytest.raises(ValueError, match="is no URL"):
        async with connect_websocket(url):
            pass


async def test_nobody_there_is_told(tmp_path: Path) -> None:
    for url in ("ws://127.0.0.1:1", f"unix://{tmp_path}/none"):
        with pytest.raises(ConnectFailed, match=url):
            async with connect_websocket(url):
                pass
