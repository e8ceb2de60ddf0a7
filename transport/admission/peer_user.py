"""Which user of this machine is at the other end of a connection.

For a Unix socket the kernel says so (unix(7), SO_PEERCRED). For TCP over loopback it is asked through sock_diag(7) who
owns the socket with exactly the peer's pair of addresses: one request about one socket, answered within the call.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final, NamedTuple

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_TCP_ESTABLISHED: Final = 1
_CONNECTED: Final = (_TCP_ESTABLISHED, 8)
"""States in which a peer has not reset a connection; 8 is CLOSE_WAIT."""
_ANY_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr
_REQUEST: Final = struct.Struct("=BBBxI")  # inet_diag_req_v2, up to its socket id
_PORTS: Final = struct.Struct("!HH")
_STATE: Final = struct.Struct("=BBBB")  # inet_diag_msg, up to its socket id
_SOCKET_ID_SIZE: Final = 48
_OWNER: Final = struct.Struct("=IIIII")  # expires, rqueue, wqueue, uid, inode
_MAPPED: Final = bytes(10) + b"\xff\xff"

ROOT: Final = 0


class Endpoint(NamedTuple):
    """An IP address and port as the kernel has them, IPv4 in IPv6 clothes undressed."""

    address: bytes
    port: int


def is_trusted(uid: int | None) -> bool:
    """Whether this user could do here whatever we can: the user that we run as, or root. Nobody knows: no."""
    return uid is not None and uid in (ROOT, os.geteuid())


def unix_peer(connection: socket.socket) -> tuple[int, int]:
    """Pid and uid of the process that connected to a Unix socket."""
    size = struct.calcsize("3i")
    pid, uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


class TcpPeers:
    """Asks the kernel about the peers of TCP connections from this machine. Never blocks.

    Raises OSError when made where the kernel has no sock_diag.
    """

    def __init__(self) -> None:
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_SOCK_DIAG)
        self._serial = 0

    def close(self) -> None:
        """Not to be asked afterwards."""
        self._netlink.close()

    def check(self, listening: socket.socket) -> None:
        """See whether the kernel knows a socket that is certainly there. Raises OSError if not."""
        ours = _endpoint(listening.getsockname())
        answer = self._ask(listening.family, ours, Endpoint(bytes(len(ours.address)), 0))
        if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
            raise OSError(errno.EOPNOTSUPP, "the kernel answers no sock_diag question")

    def uid_of_peer(self, connection: socket.socket) -> int | None:
        """The user that owns the other end; None if there is no open, established socket with just these addresses
        in this network namespace. Raises OSError if the kernel cannot be asked."""
        try:
            peer, ours = connection.getpeername(), connection.getsockname()
        except OSError:  # reset before it was accepted
            return None
        uid = self.uid_of(connection.family, _endpoint(peer), _endpoint(ours))
        # Were it reset before the kernel was asked, somebody else could have had its pair of addresses by then.
        return uid if _is_connected(connection) else None

    def uid_of(self, family: int, source: Endpoint, destination: Endpoint) -> int | None:
        """The user that owns the established socket from `source` to `destination`. Raises OSError."""
        return _owner(self._ask(family, source, destination), source, destination)

    def _ask(self, family: int, source: Endpoint, destination: Endpoint) -> bytes:
        self._serial += 1
        self._netlink.send(_request(family, source, destination, self._serial))
        while True:  # the answer is there already; before it there may be one that nobody read
            answer = self._netlink.recv(8192)
            if _HEADER.unpack_from(answer)[3] == self._serial:
                return answer


def _is_connected(connection: socket.socket) -> bool:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _CONNECTED


def _endpoint(address: tuple[str, int] | tuple[str, int, int, int]) -> Endpoint:
    host = address[0].partition("%")[0]
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    return Endpoint(_undressed(packed), address[1])


def _undressed(packed: bytes) -> bytes:
    return packed[12:] if len(packed) == 16 and packed[:12] == _MAPPED else packed


def _request(family: int, source: Endpoint, destination: Endpoint, serial: int) -> bytes:
    if family == socket.AF_INET6 and len(source.address) == 4:
        family = socket.AF_INET
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
    body += _PORTS.pack(source.port, destination.port)
    body += source.address.ljust(16, b"\0") + destination.address.ljust(16, b"\0") + bytes(4) + _ANY_COOKIE
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, serial, 0) + body


def _owner(answer: bytes, source: Endpoint, destination: Endpoint) -> int | None:
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None  # an error: there is no such socket
    at = _HEADER.size
    family, state, _timer, _retransmits = _STATE.unpack_from(answer, at)
    at += _STATE.size
    size = 4 if family == socket.AF_INET else 16
    ports = _PORTS.unpack_from(answer, at)
    addresses = answer[at + 4 : at + 4 + size], answer[at + 20 : at + 20 + size]
    found = [Endpoint(_undressed(address), port) for address, port in zip(addresses, ports, strict=True)]
    uid, inode = _OWNER.unpack_from(answer, at + _SOCKET_ID_SIZE)[3:]
    # The kernel answers with a listener where there is no connection, and with uid 0 for what nobody holds any more.
    if found != [source, destination] or state != _TCP_ESTABLISHED or inode == 0:
        return None
    return int(uid)
