"""What a server has inside at one moment, as JSON: to its log at SIGUSR1, or to `exec-server debug dump`.

That asks by the same signal, and listens on an abstract Unix socket for the answer.
There are no secrets in it: sessions by their tags, and arguments of commands only for who asks for them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from typing import Final

import msgspec

from exec_server.server.server import Server

log = logging.getLogger("exec_server.dump")

ASK_S: Final = 5.0
"""How long whoever asks may take to say what is wanted, and to read it, in seconds."""
_UCRED: Final = struct.Struct("3i")


class Wanted(msgspec.Struct):
    """What `exec-server debug dump` sends: one line of JSON."""

    argv: bool = False


def address_of(pid: int) -> str:
    """Where the answer of this server goes (unix(7), abstract)."""
    return f"\0exec-server-dump-{pid}"


def user_of(sock: socket.socket) -> int:
    """The user at the other end (SO_PEERCRED)."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return int(_UCRED.unpack(data)[1])


class Dumper:
    """Dumps on request, one at a time; a request while one is under way is that one."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._task: asyncio.Task[None] | None = None

    def request(self) -> None:
        """Dump soon. For a signal handler of the loop."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def end(self) -> None:
        """Dump no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        try:
            sock = _asker()
            if sock is None:
                log.warning("dump %s", msgspec.json.encode(await self._server.dump()).decode())
            else:
                async with asyncio.timeout(ASK_S):
                    await self._answer(sock)
        except (OSError, TimeoutError, RuntimeError, ValueError, msgspec.DecodeError) as error:
            log.warning("nothing was dumped: %s", error or "nobody took it in time")
        finally:
            self._task = None

    async def _answer(self, sock: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=sock)
        try:
            wanted = msgspec.json.decode(await reader.readline(), type=Wanted)
            writer.write(msgspec.json.encode(await self._server.dump(wanted.argv)))
            await writer.drain()
        finally:
            writer.close()


def _asker() -> socket.socket | None:
    """The socket of who waits for a dump of this process; None where nobody does who may have it."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.connect(address_of(os.getpid()))
        if user_of(sock) in (0, os.geteuid()):
            return sock
    except OSError:
        pass
    sock.close()
    return None
