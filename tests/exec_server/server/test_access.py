"""Who may connect, as the program's flags say: what it refuses to start with, and what it asks of clients."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import trustme
from websockets.asyncio.client import connect, unix_connect
from websockets.exceptions import InvalidStatus

from exec_server.server.access import AccessError, admission_of, authenticator_of, read_secret, warn_of_open_doors
from exec_server.server.config import Config
from exec_server.server.config_sources import load
from exec_server.server.program import serve
from tests.support.client import PATIENCE_S, Client, WebSocketLink, session
from tests.support.program import ROOT, command, eventually, launched, program
from transport.listen import ListenUrlError, SystemdUrl, UnixUrl, parse_listen_url

pytestmark = pytest.mark.anyio

TOKEN = "correct horse battery staple"
DIGEST = sha256(TOKEN.encode()).hexdigest()
CAPABILITY = ["--ws-auth", "capability-token"]
SIGNED = ["--ws-auth", "signed-bearer-token"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with tokens in it."""
    (tmp_path / "token").write_text(f" \n{TOKEN}\r\n")
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "short").write_bytes(b"x" * 31 + b"\n")
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (CAPABILITY, "`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set"),
        (SIGNED, "`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set"),
        (
            [*CAPABILITY, "--ws-token-file", "token", "--ws-token-sha256", DIGEST],
            "`--ws-token-file` and `--ws-token-sha256` are mutually exclusive",
        ),
        (
            [*CAPABILITY, "--ws-token-sha256", DIGEST[:-1]],
            "--ws-token-sha256 must be a 64-character hex SHA-256 digest",
        ),
        (
            [*CAPABILITY, "--ws-token-sha256", DIGEST[:-1] + "g"],
            "--ws-token-sha256 must be a 64-character hex SHA-256 digest",
        ),
        ([*SIGNED, "--ws-shared-secret-file", "short"], "websocket auth secret short must be at least 32 bytes"),
        ([*SIGNED, "--ws-shared-secret-file", "empty"], "websocket auth secret empty must not be empty"),
        ([*CAPABILITY, "--ws-token-file", "empty"], "websocket auth secret empty must not be empty"),
        ([*CAPABILITY, "--ws-token-file", "large"], "websocket auth secret large must not be longer than 65536 bytes"),
        (
            [*CAPABILITY, "--ws-token-file", "/none"],
            "failed to read websocket auth secret /none: No such file or directory",
        ),
        ([*CAPABILITY, "--ws-token-file", "/"], "failed to read websocket auth secret /: Is a directory"),
        (
            ["--ws-token-file", "token"],
            "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`",
        ),
        (
            ["--ws-issuer", "x"],
            "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`",
        ),
        (
            [*SIGNED, "--ws-token-file", "token"],
            "`--ws-token-file` belongs to `--ws-auth capability-token`, not to `--ws-auth signed-bearer-token`",
        ),
    ],
)
def test_what_the_server_does_not_start_with(
    files: Path, flags: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Lost: certainty that what was meant to be locked is locked; why not, in upstream's words."""
    assert serve(["--listen", "ws://127.0.0.1:0", *flags]) == 1
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", f"Error: {said}\n")


def test_a_secret_is_what_the_file_holds_without_white_space(files: Path) -> None:
    """Lost: the token, to the line break that an editor adds."""
    assert read_secret("token") == TOKEN.encode()
    by_digest = authenticator_of(load([*CAPABILITY, "--ws-token-sha256", DIGEST.upper()], {}))
    by_file = authenticator_of(load([*CAPABILITY, "--ws-token-file", "token"], {}))
    assert by_digest is not None and by_file is not None
    assert by_digest.grants(by_file.judge([f"Bearer {TOKEN}"]))


@pytest.mark.parametrize("url", ["ws://0.0.0.0:0", "ws://10.0.0.1:80", "ws://[::]:0", "ws://[::ffff:10.0.0.1]:0"])
def test_the_network_is_not_served_without_a_lock(url: str) -> None:
    """Lost: the machine, to everybody on the network."""
    with pytest.raises(ListenUrlError, match=r"--ws-auth.*--allow-unauthenticated") as caught:
        admission_of(Config(), parse_listen_url(url))
    assert "\n" not in str(caught.value)
    with pytest.raises(ListenUrlError):
        admission_of(Config(allow_other_users=True, allow_host=("x",)), parse_listen_url(url))
    locked = Config(ws_auth="capability-token", ws_token_sha256=DIGEST)
    assert admission_of(locked, parse_listen_url(url)).authenticator is not None
    assert admission_of(Config(tls_client_ca="ca.pem"), parse_listen_url(url)).hosts is None
    insisted = admission_of(Config(allow_unauthenticated=True), parse_listen_url(url))
    assert insisted.hosts == frozenset() and not insisted.own_user_only


def test_what_is_dangerous_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Lost: a last word to who opens a door without knowing what goes through it."""
    for config, url, said in (
        (Config(), "ws://127.0.0.1:0", ""),
        (Config(allow_unauthenticated=True), "ws://0.0.0.0:0", "whoever reaches this address can run commands"),
        (Config(ws_auth="capability-token"), "ws://0.0.0.0:0", "unencrypted"),
        (Config(ws_auth="capability-token"), "wss://0.0.0.0:0", ""),
    ):
        caplog.clear()
        listen = parse_listen_url(url)
        assert not isinstance(listen, SystemdUrl)
        warn_of_open_doors(config, listen)
        assert said in caplog.text and bool(said) is bool(caplog.text)


def test_which_rules_hold_where() -> None:
    """Lost: one lock, because another was put on."""
    loopback = parse_listen_url("ws://127.0.0.1:0")
    bare = admission_of(Config(), loopback)
    assert bare.own_user_only and bare.hosts == frozenset()
    assert admission_of(Config(allow_unauthenticated=True), loopback).own_user_only
    assert not admission_of(Config(allow_other_users=True), loopback).own_user_only
    with_token = admission_of(Config(ws_auth="capability-token", ws_token_sha256=DIGEST), loopback)
    assert with_token.hosts is None and not with_token.own_user_only, "whoever has the token may be anybody"
    unix = admission_of(Config(ws_auth="capability-token", ws_token_sha256=DIGEST), UnixUrl("/x"))
    assert unix.authenticator is not None and unix.own_user_only


def test_a_flag_that_may_be_repeated() -> None:
    """Lost: all but one of the names that were allowed."""
    config = load(["--allow-host", "A.example,b", "--allow-host", "c", "--allow-other-users"], {})
    assert config.allow_host == ("a.example", "b", "c") and config.allow_other_users
    assert not load(["--allow-other-users", "no"], {"EXEC_SERVER_ALLOW_OTHER_USERS": "yes"}).allow_other_users


async def test_a_token_is_needed_and_seen_by_nobody(files: Path) -> None:
    """Lost: the machine to who connects without a token, or the token to who looks at processes and logs."""
    flags = [*CAPABILITY, "--ws-token-file", str(files / "token"), "--log-level", "debug"]
    with program(*flags, stderr=subprocess.PIPE) as server:
        for wrong in ({}, {"Authorization": "Bearer correct horse"}, {"Authorization": f"Basic {TOKEN}"}):
            with pytest.raises(InvalidStatus) as refused:
                await connect(server.url, additional_headers=wrong, proxy=None)
            assert refused.value.response.status_code == 401
        right = {"Authorization": f"bearer  {TOKEN}"}
        async with connect(server.url, additional_headers=right, compression=None, proxy=None) as socket:
            client = Client(WebSocketLink(socket))
            await client.initialize()
            seen = (
                await client.run("ps", "/bin/cat", f"/proc/{server.pid}/cmdline", f"/proc/{server.pid}/environ")
            ).stdout
        assert TOKEN.encode() not in seen
        assert server.popen.stderr is not None
        server.stop()
        log = server.popen.stderr.read()
        assert log.count(b"refused 127.0.0.1:") >= 1
        assert b"horse" not in log


async def test_tls_serves_and_takes_a_new_certificate(tmp_path: Path) -> None:
    """Lost: secrecy on the network; and every session, each time that a certificate is renewed."""
    cert, log = tmp_path / "cert.pem", tmp_path / "log"
    old, new = issue(cert), trustme.CA()
    argv = command("--listen", "wss://127.0.0.1:0", "--tls-cert", str(cert), "--log-level", "info")
    with (
        log.open("wb") as stderr,
        launched(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        assert url.startswith("wss://127.0.0.1:")
        async with session(url, ssl=trusting(old)) as client:
            assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"
            issue(cert, new)
            process.send_signal(signal.SIGHUP)
            await eventually(lambda: b"reloaded" in log.read_bytes(), "the certificate is read again")
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(url, ssl=trusting(old), proxy=None)
            async with session(url, ssl=trusting(new)) as other:
                assert (await other.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"
            assert (await client.run("again", "/bin/echo", "hi")).stdout == b"hi\n", "who is there stays"
        process.terminate()
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0


def issue(path: Path, authority: trustme.CA | None = None) -> trustme.CA:
    """Write a certificate for 127.0.0.1 and its key; whose it is."""
    authority = trustme.CA() if authority is None else authority
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(path))
    return authority


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_a_unix_socket_serves(tmp_path: Path) -> None:
    """Lost: a server that no network can reach, and its file afterwards."""
    path = tmp_path / "s"
    argv = command("--listen", f"unix://{path}")
    with launched(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline().decode() == f"unix://{path}\n"
        async with unix_connect(str(path), compression=None) as socket:
            client = Client(WebSocketLink(socket))
            await client.initialize()
            assert (await client.run("echo", "/bin/echo", "hi")).stdout == b"hi\n"
        process.terminate()
        assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
        assert not path.exists()


def test_starting_loads_nothing_for_what_is_not_used() -> None:
    """Lost: time at each start, for libraries that hardly anybody needs."""
    code = (
        "import sys, exec_server.server.program as s\n"
        "s.entrance_of(s.load(['--listen', 'ws://127.0.0.1:0']))\n"
        "print(sorted({'jwt', 'tomllib', 'cryptography'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env={**os.environ}) == b"[]\n"


def test_tokens_are_read_whoever_may_read_them(files: Path) -> None:
    """Lost: why the server does not start, where its user may not read the token."""
    if os.getuid() != 0:
        (files / "token").chmod(0)
        with pytest.raises(AccessError, match="failed to read websocket auth secret token: Permission denied"):
            read_secret("token")
    with pytest.raises(AccessError, match="failed to read"):
        read_secret("a\0b")
