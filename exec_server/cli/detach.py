"""`exec-server run --detach`: a command that goes on when we leave, in a session whose id is kept."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from exec_server.cli.detached_sessions import DetachedSession, DetachedSessions
from exec_server.cli.durations import shown
from exec_server.cli.exit_status import CliError, put
from exec_server.cli.start import RunRequest, started
from exec_server.cli.target import connected, detachable_url
from exec_server.cli.terminal import size
from exec_server.client.client import ExecServerClient
from exec_server.client.environments_file import ServerTarget
from protocol.errors import InvalidRequest, SessionAttached

KEEP_S = 86400.0
"""How long a session lives without a connection, unless `--keep` says otherwise, in seconds."""
ATTACHED_S = 10.0
"""How long to wait for somebody who has the session attached, in seconds."""
AGAIN_S = 0.2


async def detach(target: ServerTarget, wanted: RunRequest, name: str, keep: float | None) -> int:
    """Start the command, print its id, and leave."""
    store = DetachedSessions(detachable_url(target))
    async with store.locked():
        sessions = store.load()
        kept = sessions.get(name)
        async with _session(target, name, kept, keep or KEEP_S) as client:
            if kept is None or kept.session_id != client.session_id:
                store.save({**sessions, name: DetachedSession(client.session_id, keep or KEEP_S)})
            elif keep not in (None, kept.keep):
                text = (
                    f"session {name} is kept for {shown(kept.keep)} already: leave --keep out, or name another session"
                )
                raise CliError(text)
            process = await started(
                client,
                wanted,
                stdin=subprocess.DEVNULL,
                process_id=secrets.token_hex(4),
                window=size() if wanted.tty else None,
            )
            await client.detach()
    try:
        put(f"{process.process_id}\n")
    except OSError as error:
        raise CliError(f"{process.process_id} was started and runs; {error.strerror}") from None
    return 0


@asynccontextmanager
async def _session(
    target: ServerTarget, name: str, kept: DetachedSession | None, keep: float
) -> AsyncIterator[ExecServerClient]:
    """The kept session, or a new one where there is none any more."""
    async with AsyncExitStack() as stack:
        client = None if kept is None else await _resumed(stack, target, name, kept)
        if client is None:
            client = await stack.enter_async_context(connected(target, session_ttl=keep))
            if "sessionTtl" not in client.extensions:
                raise CliError("this server keeps no sessions: it lacks the extension `sessionTtl`")
        yield client


async def _resumed(
    stack: AsyncExitStack, target: ServerTarget, name: str, kept: DetachedSession
) -> ExecServerClient | None:
    """The session, attached for the moment of a start; None if it is gone."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + ATTACHED_S
    while True:
        try:
            return await stack.enter_async_context(connected(target, resume_session_id=kept.session_id))
        except SessionAttached:
            if loop.time() > deadline:
                text = f"another client holds session {name}: try again later, or name another with --session"
                raise CliError(text) from None
            await asyncio.sleep(AGAIN_S)  # nothing tells when it leaves
        except InvalidRequest:
            return None
