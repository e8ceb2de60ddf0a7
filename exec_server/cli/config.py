"""`exec-server config`: what the settings are, and whether a server would start with them."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import cyclopts

from exec_server.cli.exit_status import put
from exec_server.printable import printable
from exec_server.standard_fds import say

Flags = Annotated[str, cyclopts.Parameter(allow_leading_hyphen=True, show=False)]
"""What follows is for `exec-server serve`."""

app = cyclopts.App(name="config", help="Look at the settings; flags are those of `exec-server serve`.")


@app.command
def check(*flags: Flags) -> int:
    """Say what is wrong with the settings and the files that they name; status 0 if nothing is."""
    problems = problems_of(flags)
    for problem in problems:
        say(2, printable(problem))
    for name in unknown_variables():
        say(2, printable(f"note: the environment variable {name} is none of a setting"))
    if not problems:
        put("ok\n")
    return 1 if problems else 0


@app.command
def show(*flags: Flags) -> int:
    """Print the settings in force, as a file for `--config`, and where each comes from."""
    from exec_server.server.config import OPTIONS, ConfigError
    from exec_server.server.config_sources import load_with_sources

    try:
        loaded = load_with_sources(flags)
    except ConfigError as error:
        for problem in error.problems:
            say(2, printable(problem))
        return 1
    for option in OPTIONS:
        if option.name != "config":
            value = in_toml(getattr(loaded.config, option.name))
            put(printable(f"{option.name} = {value}  # {loaded.sources.get(option.name, 'default')}") + "\n")
    return 0


def problems_of(flags: tuple[str, ...]) -> tuple[str, ...]:
    """What keeps a server from starting with these flags, as far as files and settings go."""
    from exec_server.server.access import AccessError, admission_of, authenticator_of, tls_of
    from exec_server.server.config import ConfigError
    from exec_server.server.config_sources import load
    from transport.listen import ListenUrlError, SystemdUrl, parse_listen_url

    try:
        config = load(flags)
        url = parse_listen_url(config.listen)
        if isinstance(url, SystemdUrl):
            authenticator_of(config)  # the rest depends on the address of the socket
            return ()
        admission_of(config, url)
        tls_of(config, url)
    except ConfigError as error:
        return error.problems
    except (AccessError, ListenUrlError) as error:
        return (str(error),)
    return ()


def unknown_variables() -> list[str]:
    """Variables that look like settings and are none; they may be somebody else's, and are not used."""
    from exec_server.server.config import KNOWN, variable_of

    known = {*map(variable_of, KNOWN), "EXEC_SERVER_URL", "EXEC_SERVER_TOKEN_FILE", "EXEC_SERVER_ENVIRONMENTS"}
    return [name for name in os.environ if name.startswith("EXEC_SERVER_") and name not in known]


def in_toml(value: Any) -> str:
    """A value as TOML has it: its strings and arrays are those of JSON."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
