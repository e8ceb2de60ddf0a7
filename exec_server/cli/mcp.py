"""`exec-server mcp`: a machine for any agent that speaks the Model Context Protocol."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter

from exec_server.cli.exit_status import USAGE, CliError, complain, outcome
from exec_server.cli.target import TokenFile, Url, target_of
from exec_server.client.environments_file import EnvironmentsFileError, ServerTarget, chosen_target
from exec_server.mcp.policy import Policy, SandboxMode

_GROUP = "HTTP"


@Parameter(name="*")
@dataclass(frozen=True)
class HttpOptions:
    """Who may come in over HTTP; the options are those of `exec-server serve`."""

    http: Annotated[str | None, Parameter(group=_GROUP, help="Serve HTTP at IP:PORT (0: any free port).")] = None
    ws_auth: Annotated[str, Parameter(group=_GROUP, help="capability-token or signed-bearer-token.")] = ""
    ws_token_file: Annotated[str, Parameter(group=_GROUP, help="Holds the capability token.")] = ""
    ws_token_sha256: Annotated[str, Parameter(group=_GROUP, help="SHA-256 of the capability token.")] = ""
    ws_shared_secret_file: Annotated[str, Parameter(group=_GROUP, help="Holds the secret that signs tokens.")] = ""
    ws_issuer: Annotated[str, Parameter(group=_GROUP, help="The issuer that signed tokens must name.")] = ""
    ws_audience: Annotated[str, Parameter(group=_GROUP, help="The audience that signed tokens must name.")] = ""
    tls_cert: Annotated[str, Parameter(group=_GROUP, help="Certificate chain, PEM; then it is HTTPS.")] = ""
    tls_key: Annotated[str, Parameter(group=_GROUP, help="Its private key, if it is not in the same file.")] = ""
    tls_client_ca: Annotated[str, Parameter(group=_GROUP, help="Clients must have a certificate of these.")] = ""
    allow_origin: Annotated[list[str], Parameter(group=_GROUP, negative=(), help="Pages that may connect.")] = field(
        default_factory=list
    )
    allow_host: Annotated[list[str], Parameter(group=_GROUP, negative=(), help="More names of this server.")] = field(
        default_factory=list
    )
    allow_other_users: Annotated[bool, Parameter(group=_GROUP, negative=(), help="Let all users here connect.")] = False
    allow_unauthenticated: Annotated[
        bool, Parameter(group=_GROUP, negative=(), help="Serve the network without asking for tokens.")
    ] = False


def mcp(
    *,
    url: Url = None,
    token_file: TokenFile = None,
    environment: str | None = None,
    sandbox: SandboxMode | None = None,
    workspace: str | None = None,
    root: str | None = None,
    http: HttpOptions | None = None,
) -> int:
    """Serve the Model Context Protocol on stdin and stdout, or with --http on a port: tools to run commands and to work
    on files, for any agent.

    Parameters
    ----------
    environment
        A name out of the file of environments, instead of --url.
    sandbox
        What commands and file tools may do: `read-only` nothing but read, `workspace-write` also write below the
        workspace and in /tmp. Neither has a network. Without it they may do what the user may.
    workspace
        The folder on the machine to work in; by default the current one here, that of the server elsewhere.
    root
        A folder that file tools do not leave.
    """
    options = http or HttpOptions()
    if url is not None and environment is not None:
        return complain("--url and --environment exclude each other", USAGE)
    if options.http is None and options != HttpOptions():
        return complain("the options of HTTP need --http IP:PORT", USAGE)
    if find_spec("mcp") is None:
        return complain("exec-server mcp needs `pip install 'exec-server[mcp]'`", USAGE)
    from exec_server.mcp.program import serve
    from exec_server.server.access import AccessError
    from exec_server.server.config import ConfigError
    from exec_server.server.config_sources import load
    from transport.listen import ListenUrlError

    flags = [text for name, value in asdict(options).items() if name != "http" for text in _flags(name, value)]
    try:
        target = target_of(url, token_file) if environment is None else chosen_target(environment)
        settings = load(flags) if options.http is not None else None
        policy = _policy(target, sandbox, workspace, root)
    except (EnvironmentsFileError, ConfigError, CliError) as error:
        return complain(str(error), USAGE)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="exec-server: %(message)s")

    async def main() -> int:
        try:
            await serve(target, policy, options.http, settings)
        except (ListenUrlError, AccessError) as error:
            raise CliError(str(error)) from None
        except OSError as error:
            raise CliError(f"cannot listen on {options.http}: {error.strerror or error}") from None
        return 0

    return outcome(main)


def _flags(name: str, value: str | bool | list[str]) -> list[str]:
    """An option as the command line of a server has it."""
    flag = "--" + name.replace("_", "-")
    if isinstance(value, list):
        return [text for each in value for text in (flag, each)]
    if isinstance(value, bool):
        return [flag, "yes"] if value else []
    return [flag, value] if value else []


def _policy(target: ServerTarget, sandbox: SandboxMode | None, workspace: str | None, root: str | None) -> Policy:
    """Raises CliError for a folder that cannot be meant."""
    local = target.command is None and target.url in (None, "local")
    folders = {"--workspace": workspace, "--root": root}
    for option, folder in folders.items():
        if folder is None:
            continue
        if local:
            folders[option] = os.path.abspath(os.path.expanduser(folder))
            if not os.path.isdir(folders[option] or ""):
                raise CliError(f"{option} {folder} is no folder")
        elif not folder.startswith("/"):
            raise CliError(f"{option} {folder}: give the absolute path on the machine that {target.url or 'runs'} is")
    return Policy(folders["--workspace"], folders["--root"], sandbox)
