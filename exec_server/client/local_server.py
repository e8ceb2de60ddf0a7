"""A server of one's own, as a child on stdio: it dies with its client."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from exec_server.client.client import ExecServerClient
from exec_server.client.connect import CLIENT_NAME, INITIALIZE_S, connect_stdio
from exec_server.client.errors import ConnectFailed

END_S = 2.0
"""How long the server has to end after its output has, in seconds."""


@asynccontextmanager
async def spawn_local_server(
    command: Sequence[str] | None = None,
    client_name: str = CLIENT_NAME,
    initialize_timeout: float = INITIALIZE_S,
    *,
    encoding: Literal["json", "msgpack"] | None = None,
) -> AsyncIterator[ExecServerClient]:
    """A client of a server that is started for it, with pipes as stdin and stdout: `exec-server` of this Python, or
    `command`, which may go through `ssh` or `docker exec -i`.

    `encoding` is what the command was told to speak; JSON by default. The server ends with the block, or with this
    program, however that ends. Raises ConnectFailed.
    """
    ours = command is None
    if command is None:
        encoding = encoding or "msgpack"
        # -P: not the current folder's modules (https://docs.python.org/3/using/cmdline.html#cmdoption-P).
        command = [sys.executable, "-P", "-m", "exec_server", "--listen", "stdio://", "--encoding", encoding]
    try:
        # ^C is for the client, which ends its server. Another command may need the terminal: for a password.
        server = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, start_new_session=ours)
    except OSError as error:
        raise ConnectFailed(f"cannot start {command[0]}: {error.strerror}") from None
    assert server.stdout is not None and server.stdin is not None
    try:
        async with connect_stdio(
            server.stdout, server.stdin, client_name, initialize_timeout, encoding=encoding or "json"
        ) as client:
            yield client
    finally:
        await _ended(server)


async def _ended(server: asyncio.subprocess.Process) -> None:
    """Wait for the end of a server whose input has ended; kill it if it does not come."""
    assert server.stdin is not None
    server.stdin.close()
    try:
        async with asyncio.timeout(END_S):
            await server.wait()
    except BaseException as error:
        if server.returncode is None:
            server.kill()
        await server.wait()
        if not isinstance(error, TimeoutError):
            raise
