"""`exec-server wait`: the end of a command that was left running."""

from __future__ import annotations

import asyncio
import json

from exec_server.cli.detached_processes import found
from exec_server.cli.detached_sessions import DetachedSessions
from exec_server.cli.durations import seconds
from exec_server.cli.exit_status import NOT_RUN, outcome, put, tell
from exec_server.cli.foreground import TIMED_OUT, shell_status
from exec_server.cli.target import Json, TokenFile, Url, connected, detachable_url, target_of
from exec_server.client.environments_file import ServerTarget


def wait(
    id: str,
    /,
    *,
    timeout: str | None = None,
    url: Url = None,
    token_file: TokenFile = None,
    session: str | None = None,
    json: Json = False,
) -> int:
    """Wait until a command has ended; its exit status is ours (128+n for signal n; 125 if exec-server failed).

    Parameters
    ----------
    id
        As `run --detach` printed it.
    timeout
        How long to wait at most; status 124 then. The command goes on.
    session
        Look for the command in this session only.
    """

    async def main() -> int:
        limit = None if timeout is None else seconds(timeout, "--timeout")
        return await _wait(target_of(url, token_file), id, limit, session, json)

    return outcome(main, NOT_RUN)


async def _wait(target: ServerTarget, process_id: str, limit: float | None, session: str | None, as_json: bool) -> int:
    store = DetachedSessions(detachable_url(target))
    async with connected(target) as client:
        process = await found(client, store, process_id, session)
        try:
            async with asyncio.timeout(limit):
                status = await process.wait()
        except TimeoutError:
            tell(f"{process_id} still runs")
            return TIMED_OUT
    if as_json:
        told = {"exitCode": shell_status(status), "signal": status.signal, "reason": status.reason}
        try:
            put(json.dumps({"processId": process_id, **told}) + "\n")
        except OSError as error:
            tell(str(error.strerror))
            return shell_status(status) or NOT_RUN
    return shell_status(status)
