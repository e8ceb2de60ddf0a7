"""MCP as Streamable HTTP: who may come in (as with the server's own listener), and which session a request is of.

A client before revision 2026-07-28 has a session, whose id is a header. Later ones have none: all of those that are let
in share one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exec_server.mcp.event_store import RecentEvents, owner
from exec_server.mcp.machine import Connect
from exec_server.mcp.policy import Policy
from exec_server.mcp.server import Client, server_for
from exec_server.server.access import admission_of, tls_of
from exec_server.server.config import Config
from exec_server.standard_fds import say
from transport.admission.handshake import health
from transport.admission.peer_user import Endpoint, TcpPeers, is_trusted
from transport.admission.rules import Admission, Refusal
from transport.admission.throttle import MOST_S
from transport.listen import WebSocketUrl, open_tcp_peers, parse_listen_url
from transport.sockets import open_listening_socket

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger("exec_server.mcp")

PATH = "/mcp"
MAX_BODY = 16 << 20
"""The longest message of a client, in bytes."""
MAX_SESSIONS = 1000
IDLE_S = 30 * 60.0
"""A session in which nothing is asked for so long ends, in seconds. An open stream of news keeps it."""
SWEEP_S = 30.0
LEAVE_S = 2
"""How long requests under way have when the server ends, in seconds."""
SHARED = ""
"""The key of the session of all clients that have none."""
SESSION_HEADER = b"mcp-session-id"
VERSION_HEADER = b"mcp-protocol-version"


@dataclass
class _Use:
    """A session's requests under way, and when the last one ended."""

    under_way: int = 0
    ended: float = 0.0
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)


class Clients:
    """The sessions by their keys. Those in which nothing happens end."""

    def __init__(self, connect: Connect, policy: Policy, events: RecentEvents) -> None:
        self._connect = connect
        self._policy = policy
        self._events = events
        self._clients: dict[str, Client] = {}
        self._uses: dict[str, _Use] = {}

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Client:
        """Whose request this is; the library has seen to it that a session of this id exists."""
        key = SHARED
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS and ctx.request is not None:
            key = ctx.request.headers.get(SESSION_HEADER.decode(), SHARED)
        if key not in self._clients:
            self._clients[key] = Client(self._connect, self._policy)
        return self._clients[key]

    def enter(self, key: str) -> _Use:
        """A request begins."""
        use = self._uses.setdefault(key, _Use())
        use.under_way += 1
        return use

    def leave(self, use: _Use) -> None:
        """It has ended."""
        use.under_way -= 1
        use.ended = asyncio.get_running_loop().time()

    def opened(self, key: str, use: _Use) -> None:
        """A request without a session has opened one."""
        self._uses.setdefault(key, _Use(ended=asyncio.get_running_loop().time(), owner=use.owner))

    async def end(self, key: str) -> None:
        """The session is over."""
        use, client = self._uses.pop(key, None), self._clients.pop(key, None)
        if use is not None:
            self._events.forget(use.owner)
        if client is not None:
            await client.close()

    async def sweep(self) -> None:
        """End idle sessions, for ever."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = asyncio.get_running_loop().time()
            for key, use in list(self._uses.items()):
                if not use.under_way and now - use.ended > IDLE_S:
                    await self.end(key)

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(self.end(key) for key in [*self._clients]))


class Gate:
    """Lets requests in as the server's own listener does, and keeps count of them."""

    def __init__(self, app: ASGIApp, admission: Admission, peers: TcpPeers | None, clients: Clients) -> None:
        self._app = app
        self._admission = admission
        self._peers = peers
        self._clients = clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._judge(scope) or self._admission.enter()
        if refused is not None:
            await _refuse(refused, scope, receive, send)
            return
        try:
            found = health(scope["path"], scope["method"], not self._admission.ending)
            if found is not None:
                await Response(found.text, found.status)(scope, receive, send)
                return
            await self._serve(scope, receive, send)
        finally:
            self._admission.leave()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        modern = headers.get(VERSION_HEADER, b"").decode("latin-1") in MODERN_PROTOCOL_VERSIONS
        key = SHARED if modern else headers.get(SESSION_HEADER, b"").decode("latin-1")
        opens = not modern and key == SHARED
        use = _Use() if opens else self._clients.enter(key)
        over = False

        async def watched(message: Message) -> None:
            nonlocal over
            if message["type"] == "http.response.start":
                over = message["status"] == 404 or (scope["method"] == "DELETE" and message["status"] < 300)
                opened = dict(message["headers"]).get(SESSION_HEADER)
                if opens and opened is not None and message["status"] < 300:
                    self._clients.opened(opened.decode("latin-1"), use)
            await send(message)

        token = owner.set(use.owner)
        try:
            await self._app(scope, receive, watched)
        finally:
            owner.reset(token)
            if not opens:
                self._clients.leave(use)
                if over and key != SHARED:
                    await self._clients.end(key)

    def _judge(self, scope: Scope) -> Refusal | None:
        """Origin and Host first: a web page must not learn even that somebody listens here."""
        peer_host, peer_port = scope["client"] or ("", 0)
        local = (scope["server"] or ("", 0))[0]
        peer = f"[{peer_host}]:{peer_port}" if ":" in peer_host else f"{peer_host}:{peer_port}"
        rules = self._admission
        refused = rules.judge_origin(_values(scope, b"origin"), peer) or rules.judge_host(
            _values(scope, b"host"), local, peer
        )
        if refused is not None:
            return refused
        if self._peers is not None:
            uid = self._owner_of(scope)
            refused = rules.judge_user(is_trusted(uid), uid, peer)
            if refused is not None:
                return refused
        judged = rules.judge_token(_values(scope, b"authorization"), peer)
        return judged if isinstance(judged, Refusal) else None

    def _owner_of(self, scope: Scope) -> int | None:
        """The user at the other end; None if nobody knows."""
        assert self._peers is not None
        try:
            family = socket.AF_INET6 if ":" in scope["server"][0] else socket.AF_INET
            ends = [Endpoint(socket.inet_pton(family, host), port) for host, port in (scope["client"], scope["server"])]
            return self._peers.uid_of(family, *ends)
        except (OSError, TypeError):
            return None


async def _refuse(refused: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(MOST_S if refused.delay is None else refused.delay)
    text = refused.text.replace("websocket ", "")
    headers: Mapping[str, str] = {"www-authenticate": "Bearer"} if refused.status == 401 else {}
    await Response(text, refused.status, headers=dict(headers))(scope, receive, send)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


async def serve_http(address: str, settings: Config, connect: Connect, policy: Policy) -> None:
    """Serve until SIGTERM or SIGINT. The first line on stdout is the URL.

    `address` is `IP:PORT`; `settings` say who may come in. Raises ListenUrlError, AccessError, OSError.
    """
    url = parse_listen_url(f"{'wss' if settings.tls_cert else 'ws'}://{address}")
    assert isinstance(url, WebSocketUrl)
    admission, tls = admission_of(settings, url), tls_of(settings, url)
    sock = open_listening_socket(url.host, url.port)
    peers = open_tcp_peers(sock) if admission.own_user_only else None
    events = RecentEvents()
    clients = Clients(connect, policy, events)
    app = server_for(clients.of, policy).streamable_http_app(
        streamable_http_path=PATH,
        event_store=events,
        max_request_body_size=MAX_BODY,
        session_idle_timeout=IDLE_S,
        max_sessions=MAX_SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # Gate does it
    )
    sweeping = asyncio.create_task(clients.sweep())
    server = _http_server(Gate(app, admission, peers, clients), tls)
    try:
        shown = url._replace(port=sock.getsockname()[1], scheme="https" if tls else "http")
        say(1, f"{shown}{PATH}")
        say(2, f"exec-server mcp on {shown}{PATH}")
        await server.serve(sockets=[sock])
    finally:
        admission.ending = True
        sweeping.cancel()
        await asyncio.wait([sweeping])
        await clients.close()
        sock.close()
        if peers is not None:
            peers.close()


class _HttpServer(uvicorn.Server):
    """The HTTP library, without its handlers of signals, which raise again what they have obeyed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _http_server(app: ASGIApp, tls: SSLContext | None) -> _HttpServer:
    """The HTTP library, which ends with SIGTERM and SIGINT from now on."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=LEAVE_S,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
    )
    server = _HttpServer(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.handle_exit, number, None)
    return server
