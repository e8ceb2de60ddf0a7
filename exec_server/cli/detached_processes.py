"""The processes in the sessions that `run --detach` has left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exec_server.cli.detached_sessions import DetachedSession, DetachedSessions
from exec_server.cli.exit_status import CliError
from exec_server.client.client import ExecServerClient
from exec_server.client.process import Process
from protocol.errors import InvalidRequest
from protocol.process import ProcessEntry


class Listed(NamedTuple):
    """A process, and the session it is in."""

    session: str
    kept: DetachedSession
    entry: ProcessEntry


async def listed(client: ExecServerClient, store: DetachedSessions, name: str | None) -> list[Listed]:
    """All processes of the session `name`, or of all that are kept, in the order of their starts.

    Sessions that the server does not know any more are forgotten here, too. Raises CliError for an unknown name.
    """
    if "attach" not in client.extensions or "list" not in client.extensions:
        raise CliError("this server does not let others see into a session: it lacks the extension `attach` or `list`")
    sessions = chosen(store.load(), name)
    found: list[Listed] = []
    gone = {}
    for session, kept in sessions.items():
        try:
            processes = await client.session(kept.session_id).list()
        except InvalidRequest:
            gone[session] = kept
            continue
        found += [Listed(session, kept, entry) for entry in processes]
    await store.forget(gone)
    if name in gone:
        raise CliError(f"session {name} is gone: nobody was connected for longer than it was kept, or the server ended")
    return sorted(found, key=lambda each: each.entry.started_at_ms)


def chosen(sessions: Mapping[str, DetachedSession], name: str | None) -> Mapping[str, DetachedSession]:
    """The session of this name, or all. Raises CliError."""
    if name is None:
        return sessions
    if name not in sessions:
        known = ", ".join(sorted(sessions)) or "none"
        raise CliError(f"there is no session {name} on this server; known: {known}")
    return {name: sessions[name]}


async def found(client: ExecServerClient, store: DetachedSessions, process_id: str, name: str | None) -> Process:
    """The process with this id. Raises CliError."""
    for each in await listed(client, store, name):
        if each.entry.process_id == process_id:
            return client.session(each.kept.session_id).handle(each.entry)
    raise CliError(f"there is no command {process_id} on this server: `exec-server ps` lists them")
