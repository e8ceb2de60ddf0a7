"""`exec-server ps`: the commands that were left running."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any

from exec_server.cli.detached_processes import Listed, listed
from exec_server.cli.detached_sessions import DetachedSessions
from exec_server.cli.durations import shown
from exec_server.cli.exit_status import outcome, put
from exec_server.cli.table import table
from exec_server.cli.target import Json, TokenFile, Url, connected, detachable_url, target_of
from exec_server.cli.terminal import columns
from exec_server.client.environments_file import ServerTarget
from protocol.paths import native_path
from protocol.process import ProcessEntry


def ps(*, url: Url = None, token_file: TokenFile = None, session: str | None = None, json: Json = False) -> int:
    """List the commands that `run --detach` has left on a server, the finished ones that it still knows included.

    Parameters
    ----------
    session
        Only those of this session.
    """
    return outcome(lambda: _ps(target_of(url, token_file), session, json))


async def _ps(target: ServerTarget, session: str | None, as_json: bool) -> int:
    store = DetachedSessions(detachable_url(target))
    async with connected(target) as client:
        processes = await listed(client, store, session)
    if as_json:
        put(json.dumps([members(each) for each in processes], indent=2) + "\n")
        return 0
    rows = [row(each, time.time()) for each in processes]
    put(table(("ID", "SESSION", "STATUS", "STARTED", "COMMAND"), rows, columns()))
    return 0


def members(each: Listed) -> dict[str, Any]:
    """What a program is told of a process, with the names of docs/protocol.md."""
    entry = each.entry
    return {
        "processId": entry.process_id,
        "session": each.session,
        "argv": entry.argv,
        "cwd": native_path(entry.cwd),
        "tty": entry.tty,
        "pid": entry.pid,
        "startedAtMs": entry.started_at_ms,
        "running": entry.running,
        "exitCode": entry.exit_code,
        "signal": entry.signal,
    }


def row(each: Listed, now: float) -> tuple[str, ...]:
    """What a person is told of a process."""
    started = f"{shown(now - each.entry.started_at_ms / 1000)} ago"
    return each.entry.process_id, each.session, status_of(each.entry), started, shlex.join(each.entry.argv)


def status_of(entry: ProcessEntry) -> str:
    """`running`, `exited 3` or `SIGKILL`."""
    if entry.running:
        return "running"
    return f"exited {entry.exit_code}" if entry.signal is None else entry.signal
