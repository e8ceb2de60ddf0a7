"""`exec-server attach`: a command that was left running, in the foreground."""

from __future__ import annotations

from exec_server.cli.detached_processes import found
from exec_server.cli.detached_sessions import DetachedSessions
from exec_server.cli.exit_status import NOT_RUN, outcome
from exec_server.cli.foreground import Foreground
from exec_server.cli.target import TokenFile, Url, connected, detachable_url, target_of
from exec_server.cli.terminal import LocalTerminal, interactive, size
from exec_server.client.environments_file import ServerTarget


def attach(id: str, /, *, url: Url = None, token_file: TokenFile = None, session: str | None = None) -> int:
    """Take a command into the foreground: first what it has printed, as far as the server has kept it, then as `run`
    does, with its exit status.

    On a terminal ^] three times in a row leaves it alone again, status 0; on pipes ^C does, status 130.

    Parameters
    ----------
    id
        As `run --detach` printed it.
    session
        Look for the command in this session only.
    """
    return outcome(lambda: _attach(target_of(url, token_file), id, session), NOT_RUN)


async def _attach(target: ServerTarget, process_id: str, session: str | None) -> int:
    store = DetachedSessions(detachable_url(target))
    async with connected(target) as client:
        process = await found(client, store, process_id, session)
        terminal = LocalTerminal() if process.tty and interactive() else None
        now = size() if terminal is not None else None
        if now is not None:
            await process.resize(*now)
        return await Foreground(process, client, terminal, attached=True, size_sent=now).run()
