"""Listen URLs, listening sockets and what comes out of them (docs/wire-spec.md, "The program")."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from transport.admission.handshake import HEAD_SECONDS
from transport.admission.peer_user import TcpPeers, is_trusted, unix_peer
from transport.admission.rules import Admission, Refusal, peer_address
from transport.base import Defer
from transport.framing.websocket import MAX_MESSAGE
from transport.sockets import open_listening_socket, open_unix_socket, remove_unix_socket, unix_identity
from transport.websocket import WebSocketTransport

if TYPE_CHECKING:
    from ssl import SSLContext

CLOSE_POLICY: Final = 1008

ACCEPT_RETRY_SECONDS: Final = 0.5
"""Pause after an accept that failed for want of descriptors or memory."""

_ACCEPTS_A_TURN = 64
UNDECIDED: Final = 1_000
"""Connections that may be in their handshake, or have been refused, beside those that are in use."""
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_websocket_url = re.compile(r"(wss?)://(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):([0-9]{1,5})")

OnLost = Callable[[WebSocketTransport], None]

_log = logging.getLogger(__name__)


class ListenUrlError(ValueError):
    """A `--listen` value that cannot be used; the text says why, in one line."""


class StdioUrl(NamedTuple):
    """Serve one client on standard input and output."""


class WebSocketUrl(NamedTuple):
    """Serve WebSocket on an IP address, `wss` with TLS; port 0 lets the kernel choose."""

    host: str
    port: int
    scheme: str = "ws"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return _is_loopback(socket.inet_pton(socket.AF_INET6 if ":" in self.host else socket.AF_INET, self.host))


class UnixUrl(NamedTuple):
    """Serve WebSocket on a Unix socket."""

    path: str

    def __str__(self) -> str:
        return f"unix://{self.path}"


class SystemdUrl(NamedTuple):
    """Serve WebSocket on the socket that the service manager has opened."""


def parse_listen_url(text: str) -> StdioUrl | WebSocketUrl | UnixUrl | SystemdUrl:
    """`stdio`, `stdio://`, `ws://IP:PORT`, `wss://IP:PORT` (IPv6 in brackets), `unix:///PATH` or
    `systemd:`. Raises ListenUrlError."""
    if text == "systemd:":
        return SystemdUrl()
    if text in ("stdio", "stdio://"):
        return StdioUrl()
    if text.startswith("unix://"):
        path = text.removeprefix("unix://")
        if not path.startswith("/") or path.endswith("/") or "\0" in path:
            raise ListenUrlError(f"invalid unix --listen URL `{text}`; expected `unix:///PATH`")
        return UnixUrl(path)
    if not text.startswith(("ws://", "wss://")):
        expected = "`ws://IP:PORT` or `stdio`, or else `wss://IP:PORT`, `unix:///PATH` or `systemd:`"
        raise ListenUrlError(f"unsupported --listen URL `{text}`; expected {expected}")
    match = _websocket_url.fullmatch(text)
    address = (
        None
        if match is None
        else _packed_address(match[2] or match[3], socket.AF_INET6 if match[2] else socket.AF_INET)
    )
    if match is None or address is None or int(match[4]) > 65535:
        scheme = text.partition(":")[0]
        raise ListenUrlError(f"invalid websocket --listen URL `{text}`; expected `{scheme}://IP:PORT`")
    return WebSocketUrl(match[2] or match[3], int(match[4]), match[1])


def _packed_address(host: str, family: socket.AddressFamily) -> bytes | None:
    try:
        return socket.inet_pton(family, host)
    except OSError:
        return None


def _is_loopback(packed: bytes) -> bool:
    if len(packed) == 16 and packed[:12] == bytes(10) + b"\xff\xff":
        packed = packed[12:]  # an IPv4 address in IPv6 clothes
    return packed[0] == 127 if len(packed) == 4 else packed == bytes(15) + b"\x01"


class Arrival(NamedTuple):
    """A connection that was accepted: who is at the other end, which of our addresses it connected to, and whether
    it is refused."""

    peer: str
    local: str
    refused: Refusal | None


class Listener:
    """A listening socket. Accepts until `close`; connections that were accepted live on."""

    def __init__(
        self,
        sock: socket.socket,
        url: WebSocketUrl | UnixUrl,
        admission: Admission,
        make_protocol: Callable[[Arrival, OnLost], WebSocketTransport],
        tls: SSLContext | None = None,
        owns_file: bool = True,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._admission = admission
        self._make_protocol = make_protocol
        self._tls = tls
        self._adopting: set[asyncio.Task[None]] = set()
        self._living: set[WebSocketTransport] = set()
        self._undecided: dict[WebSocketTransport, str] = {}
        """Those that have not been let in, and the addresses that they are from; the oldest first. Some may have been
        since."""
        self._entering: dict[WebSocketTransport, asyncio.Task[None]] = {}
        """Those whose transport is being made, as that of TLS."""
        self._all_ended = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._peers: TcpPeers | None = None
        self._file: tuple[int, int] | None = None
        self.port = 0
        """The port that the kernel chose, of a TCP socket."""
        if isinstance(url, UnixUrl):
            self._file = unix_identity(url.path) if owns_file else None
        else:
            host, self.port = sock.getsockname()[:2]
            url = WebSocketUrl(host, self.port, url.scheme)
            if admission.own_user_only:
                self._peers = open_tcp_peers(sock)
        self._url = url
        self.url = str(url)
        """Where clients connect, with the port that the kernel chose."""
        self._loop.add_reader(sock.fileno(), self._accept)

    def reload(self, admission: Admission, tls: SSLContext | None) -> int:
        """These rules hold from now on, but for which users may connect. Connections whose tokens are no longer good
        are ended with code 1008; how many."""
        self._admission.take_over(admission)
        self._tls = tls
        doomed = [each for each in self._living if each.upgraded and not self._admission.still_admits(each.grant)]
        for connection in doomed:
            connection.close(CLOSE_POLICY, "the token of this connection is no longer good")
        return len(doomed)

    def close(self) -> None:
        """Accept no more and free the port, or remove the file. May be called twice."""
        self._admission.ending = True
        if self._socket.fileno() < 0:
            return
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if self._peers is not None:
            self._peers.close()
        if isinstance(self._url, UnixUrl) and self._file is not None:
            remove_unix_socket(self._url.path, self._file)

    async def wait_closed(self, seconds: float) -> None:
        """Wait until every accepted connection has ended and its last bytes are flushed; cut those that are
        left after `seconds`. Call `close` first."""
        try:
            async with asyncio.timeout(seconds):
                while self._adopting or self._living:
                    self._all_ended.clear()
                    await self._all_ended.wait()
        except TimeoutError:
            for task in self._adopting:
                task.cancel()
            for connection in list(self._living):
                connection.abort("server is shutting down")
            await asyncio.sleep(0)  # so that the loop closes the sockets

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    # The connection died before it was accepted (accept(2) passes such network errors on).
                    _log.info("%s: accept failed: %s", self.url, error)
                    continue
                # The connection stays in the backlog, so the socket stays readable: look away for a while.
                _log.warning("%s: cannot accept: %s; trying again in %s s", self.url, error, ACCEPT_RETRY_SECONDS)
                self._loop.remove_reader(self._socket.fileno())
                self._retry = self._loop.call_later(ACCEPT_RETRY_SECONDS, self._accept_again)
                return
            connection.setblocking(False)
            arrival = self._judge(connection, address)
            if arrival.refused is not None and self._tls is not None:
                connection.close()  # it could only be told after a handshake
                continue
            task = self._loop.create_task(self._adopt(connection, arrival))
            self._adopting.add(task)
            task.add_done_callback(self._adopted)

    def _judge(self, connection: socket.socket, address: Any) -> Arrival:
        """Who has connected; asked now, since later the peer may be somebody else."""
        if isinstance(self._url, UnixUrl):
            pid, uid = unix_peer(connection)
            peer = f"unix (pid {pid}, uid {uid})"
            return Arrival(peer, "", self._admission.judge_user(is_trusted(uid), uid, peer))
        peer, local = _address_text(address), _host_of(connection)
        if self._peers is None:
            return Arrival(peer, local, None)
        owner = None
        try:
            owner = self._peers.uid_of_peer(connection)
        except OSError as error:
            _log.warning("%s: cannot tell whose %s is: %s", self.url, peer, error)
        return Arrival(peer, local, self._admission.judge_user(is_trusted(owner), owner, peer))

    def _accept_again(self) -> None:
        self._retry = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    async def _adopt(self, connection: socket.socket, arrival: Arrival) -> None:
        protocol = self._make_protocol(arrival, self._lost)
        self._living.add(protocol)
        self._undecided[protocol] = peer_address(arrival.peer)
        self._make_room()
        task = asyncio.current_task()
        assert task is not None
        self._entering[protocol] = task
        try:
            if self._tls is None:
                await self._loop.connect_accepted_socket(lambda: protocol, connection)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=HEAD_SECONDS
                )
        except OSError as error:
            self._lost(protocol)
            connection.close()
            if self._tls is None:
                _log.warning("%s: cannot serve a connection: %s", self.url, error)
            else:
                self._admission.note_failure(arrival.peer, f"no TLS: {error}")
        except asyncio.CancelledError:
            self._lost(protocol)
            connection.close()
            raise
        finally:
            del self._entering[protocol]

    def _make_room(self) -> None:
        """Strangers keep nobody out: beyond the limit the oldest undecided one goes, of the address with the most."""
        if len(self._undecided) <= UNDECIDED:
            return
        self._undecided = {each: address for each, address in self._undecided.items() if each.undecided}
        if len(self._undecided) <= UNDECIDED:
            return
        (most, _), *_ = Counter(self._undecided.values()).most_common(1)
        oldest = next(each for each, address in self._undecided.items() if address == most)
        del self._undecided[oldest]
        entering = self._entering.get(oldest)
        if entering is None:
            oldest.abort("others want to come in")
        else:
            entering.cancel()

    def _adopted(self, task: asyncio.Task[None]) -> None:
        self._adopting.discard(task)
        self._all_ended.set()

    def _lost(self, connection: WebSocketTransport) -> None:
        self._living.discard(connection)
        self._undecided.pop(connection, None)
        self._all_ended.set()


def serve_websocket(
    url: WebSocketUrl | UnixUrl,
    on_connection: Callable[[WebSocketTransport], None],
    *,
    admission: Admission | None = None,
    tls: SSLContext | None = None,
    subprotocols: Sequence[str] = (),
    ping_interval: float = 10.0,
    max_message: int = MAX_MESSAGE,
    defer: Defer | None = None,
    sock: socket.socket | None = None,
) -> Listener:
    """Listen on `url` in the running loop. `on_connection` gets each connection that was upgraded, on the
    loop. Without `admission` the user's own programs may connect, and nobody else.

    Raises OSError if the address cannot be had, or if nobody could be told apart where users must be. The other
    parameters are those of `WebSocketTransport`; `tls` is for a `wss` URL. `sock`, where it is given, listens at
    `url` already, and its file is not ours to remove.
    """
    admission = Admission() if admission is None else admission

    def make_protocol(arrival: Arrival, on_lost: OnLost) -> WebSocketTransport:
        return WebSocketTransport(
            on_connection,
            peer=arrival.peer,
            local=arrival.local,
            refused=arrival.refused,
            admission=admission,
            subprotocols=subprotocols,
            ping_interval=ping_interval,
            max_message=max_message,
            defer=defer,
            on_lost=on_lost,
        )

    owns_file = sock is None
    if sock is not None:
        pass
    elif isinstance(url, UnixUrl):
        sock = open_unix_socket(url.path, 0o600 if admission.own_user_only else 0o666)
    else:
        sock = open_listening_socket(url.host, url.port)
    try:
        return Listener(sock, url, admission, make_protocol, tls, owns_file)
    except OSError:
        sock.close()
        raise


def open_tcp_peers(sock: socket.socket) -> TcpPeers:
    """What tells whose the peers of this listening socket are. Raises OSError if the kernel cannot; its text says what
    to do then."""
    peers = None
    try:
        peers = TcpPeers()
        peers.check(sock)
    except OSError as error:
        if peers is not None:
            peers.close()
        text = f"nobody can tell which user connects ({error.strerror}); add --ws-auth, or --allow-other-users"
        raise OSError(error.errno, text) from None
    return peers


def _address_text(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _host_of(connection: socket.socket) -> str:
    """The address that the peer connected to."""
    return str(connection.getsockname()[0]).removeprefix("::ffff:")
