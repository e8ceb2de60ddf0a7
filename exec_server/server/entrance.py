"""Entrance of a server: where clients come in, who may, and the socket that listens there."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple

from exec_server.server.access import admission_of, tls_of, web_access_of
from exec_server.server.config import Config
from exec_server.server.server import Server
from exec_server.server.systemd import take_socket
from protocol.codec import MSGPACK_SUBPROTOCOL
from transport.admission.rules import Admission
from transport.listen import (
    Listener,
    StdioUrl,
    SystemdUrl,
    UnixUrl,
    WebSocketUrl,
    parse_listen_url,
    serve_websocket,
)

if TYPE_CHECKING:
    from ssl import SSLContext

PAGE_URL = WebSocketUrl("127.0.0.1", 8765)
"""Where a server with a page listens unless it is told where."""


class Entrance(NamedTuple):
    """Where clients come in, and who may. `sock` is one that the service manager has opened."""

    url: StdioUrl | WebSocketUrl | UnixUrl
    admission: Admission
    tls: SSLContext | None
    sock: socket.socket | None = None


def entrance_of(settings: Config) -> Entrance:
    """The entrance that the settings ask for. Raises ListenUrlError, AccessError."""
    url, sock = parse_listen_url(settings.listen), None
    if isinstance(url, SystemdUrl):
        sock, url = take_socket(encrypted=bool(settings.tls_cert))
    if settings.web and isinstance(url, StdioUrl):
        url = PAGE_URL
    admission = admission_of(settings, url)
    admission.web = web_access_of(settings, url)
    return Entrance(url, admission, tls_of(settings, url), sock)


def open_listener(config: Config, entrance: Entrance, server: Server) -> Listener:
    """Let clients in over WebSocket. Raises OSError."""
    assert not isinstance(entrance.url, StdioUrl)
    return serve_websocket(
        entrance.url,
        server.connect,
        admission=entrance.admission,
        tls=entrance.tls,
        subprotocols=[MSGPACK_SUBPROTOCOL],
        ping_interval=config.ping_interval,
        max_message=config.max_message,
        defer=server.call_after_turn,
        sock=entrance.sock,
    )
