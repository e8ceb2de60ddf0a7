"""From the params of process/start to what the operating system is asked for."""

from __future__ import annotations

from actors.child.environment import child_environment
from actors.child.spawn import SpawnRequest
from protocol.errors import InvalidParams
from protocol.paths import cwd_path
from protocol.process import ManagedPermissions, ProcessStartParams


def spawn_request(params: ProcessStartParams) -> SpawnRequest:
    """What to spawn for a process/start. Raises InvalidParams or SpawnError where the params cannot be carried out."""
    if params.host is not None or params.requirements is not None:
        raise InvalidParams("`host` and `requirements`: this server knows no other hosts", {"kind": "noHosts"})
    if params.sandbox is not None and isinstance(params.sandbox.permissions, ManagedPermissions):
        raise InvalidParams("sandboxing is not supported by this executor", {"kind": "sandboxUnsupported"})
    return SpawnRequest(
        argv=params.argv,
        cwd=cwd_path(params.cwd),
        env=child_environment(params.env, params.env_policy, params.tty),
        tty=params.tty,
        pipe_stdin=params.pipe_stdin,
        rows=params.rows,
        cols=params.cols,
        arg0=params.arg0,
    )
