"""From the params of process/start to what the operating system is asked for."""

from __future__ import annotations

from functools import partial

from actors.base.messages import StartProcess
from actors.process.recording import Recording, header, recording_path
from actors.system.child.environment import child_environment
from actors.system.child.limits import check_limits
from actors.system.child.spawn import check_size
from actors.system.launch import LaunchRequest
from actors.system.pool import RECORDING_POOL
from actors.system.sandbox.errors import SandboxUnsupported
from protocol.errors import InvalidParams, SpawnError
from protocol.process import ProcessStartParams
from protocol.sandbox import to_enforce


class LocalStart(ProcessStartParams, frozen=True):
    """The params of process/start from a client in the server's own process: it can give the child descriptors.

    They have the same numbers in the child, and must stay open until the start is answered.
    """

    pass_fds: tuple[int, ...] = ()


def spawn_request(params: ProcessStartParams, cwd: str, session_id: str) -> LaunchRequest:
    """What to spawn for a process/start. Raises InvalidParams or SpawnError where the params cannot be carried out."""
    if params.host is not None or params.requirements is not None:
        raise InvalidParams("`host` and `requirements`: this server knows no other hosts", {"kind": "noHosts"})
    _check_network(params)
    pass_fds = params.pass_fds if isinstance(params, LocalStart) else ()
    if pass_fds and to_enforce(params.sandbox) is not None:
        raise SandboxUnsupported("pass_fds: descriptors cannot be passed into a sandbox")
    if params.limits is not None:
        check_limits(params.limits)
    check_size(params.argv, params.env)
    return LaunchRequest(
        argv=params.argv,
        cwd=cwd,
        env=child_environment(params.env, params.env_policy, params.tty),
        tty=params.tty,
        pipe_stdin=params.pipe_stdin,
        rows=params.rows,
        cols=params.cols,
        echo=params.echo,
        raw=params.raw,
        arg0=params.arg0,
        limits=params.limits,
        sandbox=params.sandbox,
        pass_fds=pass_fds,
        lane=session_id,
    )


def _check_network(params: ProcessStartParams) -> None:
    """A managed network is a way out through a proxy, which there is none of here: it can be no way out at all, but not
    the one that was asked for. Raises SandboxUnsupported.
    """
    permissions = to_enforce(params.sandbox)
    if permissions is None:
        return
    if params.network_proxy is not None:
        raise SandboxUnsupported("`networkProxy`: there is no network proxy here")
    if not params.enforce_managed_network:
        return
    if permissions.network == "enabled":
        raise SandboxUnsupported('`enforceManagedNetwork`: the network can be cut here ("restricted"), not managed')
    if params.managed_network is not None and params.managed_network.loopback_ports:
        raise SandboxUnsupported("`managedNetwork.loopbackPorts`: the network is cut, no port outside can be reached")


def recording_of(start: StartProcess, request: LaunchRequest) -> Recording | None:
    """The recording of a start, not open yet; None where there is to be none. Raises InvalidParams or SpawnError."""
    params, folder = start.params, start.settings.record
    if params.record and not params.tty:
        raise InvalidParams("`record`: only a terminal can be recorded, and `tty` is false", {"kind": "notATerminal"})
    if params.record and not folder:
        raise InvalidParams("`record`: this server was started without --record", {"kind": "recordDisabled"})
    if not folder or not params.tty or params.record is False:
        return None
    try:
        RECORDING_POOL.start()
    except RuntimeError as error:
        raise SpawnError("resourceExhausted", str(error), "threads") from None
    path = recording_path(folder, start.session_id, params.process_id)
    submit = partial(RECORDING_POOL.submit, lane=start.session_id)
    return Recording(path, header(request.argv, request.env, request.rows, request.cols), submit)
