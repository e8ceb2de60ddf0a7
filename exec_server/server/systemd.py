"""What systemd and the server tell each other: readiness, a watchdog, sockets (sd_notify(3), sd_listen_fds(3)).

Without a service manager that asks for it, all of this does nothing.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import stat
import time
from collections.abc import Mapping
from typing import Final

from transport.listen import ListenUrlError, UnixUrl, WebSocketUrl

FIRST_FD: Final = 3
"""The number of the first socket that is handed over (SD_LISTEN_FDS_START)."""

log = logging.getLogger("exec_server")


class Notifier:
    """Tells the service manager of the life of this process, and that its loop turns."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._watchdog_s = _watchdog_s(environ)
        self._timer: asyncio.TimerHandle | None = None

    def ready(self, url: str) -> None:
        """Clients are served from now on. On the loop: with it the watchdog begins."""
        self._tell(f"READY=1\nSTATUS=serving {url}")
        if self._watchdog_s is not None and self._timer is None:
            self._beat()

    def reloading(self) -> None:
        """Settings are read again; `ready` says that this is over (notify-reload)."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, seconds: float) -> None:
        """The server ends, in so many seconds at most."""
        self._tell(f"STOPPING=1\nSTATUS=ending\nEXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def end(self) -> None:
        """No sign of life from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        assert self._watchdog_s is not None
        self._tell("WATCHDOG=1")
        self._timer = asyncio.get_running_loop().call_later(self._watchdog_s / 2, self._beat)

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
                sock.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("the service manager cannot be told %r: %s", state.partition("\n")[0], error)


def _address(text: str) -> str:
    """The address in NOTIFY_SOCKET; `@` stands for the NUL of an abstract one. Nothing where it is another kind."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else ""


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """After how many seconds without a sign of life this process is killed (sd_watchdog_enabled(3))."""
    microseconds, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or int(microseconds) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(microseconds) / 1e6


def take_socket(
    encrypted: bool, environ: Mapping[str, str] | None = None
) -> tuple[socket.socket, WebSocketUrl | UnixUrl]:
    """The one listening socket that the service manager has opened for this process, and its URL (`wss` where it is to
    be `encrypted`). Raises ListenUrlError where there is none, or more."""
    environ = os.environ if environ is None else environ
    if environ.get("LISTEN_PID") != str(os.getpid()):
        raise ListenUrlError("--listen systemd: needs a socket unit: no socket was handed to this process (LISTEN_PID)")
    count = environ.get("LISTEN_FDS", "")
    if count != "1":
        raise ListenUrlError(f"--listen systemd: takes one socket, and {count or 'none'} were handed over (LISTEN_FDS)")
    if not _is_socket(FIRST_FD):
        raise ListenUrlError(f"--listen systemd: descriptor {FIRST_FD} is no socket")
    sock = socket.socket(fileno=FIRST_FD)
    url = _url_of(sock, encrypted)
    if url is None:
        sock.detach()
        raise ListenUrlError("--listen systemd: the socket does not listen for streams on an IP address or a path")
    sock.setblocking(False)
    sock.set_inheritable(False)
    return sock, url


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return False


def _url_of(sock: socket.socket, encrypted: bool) -> WebSocketUrl | UnixUrl | None:
    if sock.type != socket.SOCK_STREAM or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return None
    name = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return UnixUrl(name) if isinstance(name, str) and name.startswith("/") else None
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return WebSocketUrl(name[0].partition("%")[0], name[1], "wss" if encrypted else "ws")
