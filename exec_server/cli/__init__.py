"""The command line, one module a subcommand. `serve` and `fs-helper` are told apart before, and need nothing that
`main` loads.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from exec_server.version import __version__

if TYPE_CHECKING:
    import cyclopts


COMMANDS = {
    "run": "exec_server.cli.run:run",
    "ps": "exec_server.cli.ps:ps",
    "logs": "exec_server.cli.logs:logs",
    "attach": "exec_server.cli.attach:attach",
    "wait": "exec_server.cli.wait:wait",
    "kill": "exec_server.cli.kill:kill",
    "cp": "exec_server.cli.cp:cp",
    "info": "exec_server.cli.info:info",
    "mcp": "exec_server.cli.mcp:mcp",
    "completion": "exec_server.cli.completion:completion",
    "config": "exec_server.cli.config:app",
    "debug": "exec_server.cli.debug:app",
    "doctor": "exec_server.cli.doctor:doctor",
    "replay": "exec_server.cli.replay:replay",
    "schema": "exec_server.cli.schema:schema",
}
"""Each is imported only when it is used."""
KNOWN = (*COMMANDS, "serve", "fs-helper", "-h", "--help")
"""What the first word may be."""


def main(argv: Sequence[str]) -> int:
    """Run a subcommand other than `serve`; its exit status."""
    import cyclopts

    from exec_server.cli.exit_status import FAILED, USAGE, OutputFailed, complain, quiet_end
    from exec_server.standard_fds import discard_stdout

    words = list(argv)
    if words[0] not in KNOWN:
        return complain(unknown(words[0], KNOWN), USAGE)
    if words[0] == "run":
        from exec_server.cli.run import with_separator

        words = ["run", *with_separator(words[1:])]
    try:
        status = application()(words, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except cyclopts.CycloptsError as error:
        if isinstance(error, cyclopts.UnknownCommandError) and len(words) > 1:
            nearest = str(error).partition(" Available")[0]
            return complain(f"{nearest} See exec-server {words[0]} --help", USAGE)
        return complain(f"{str(error).rstrip('.')}; see exec-server {words[0]} --help", USAGE)
    except (KeyboardInterrupt, BrokenPipeError) as ended:
        return quiet_end(ended)
    except OSError as error:
        discard_stdout()
        text = (
            error.strerror if isinstance(error, OutputFailed) else f"cannot write to standard output: {error.strerror}"
        )
        return complain(str(text), FAILED)
    return status if isinstance(status, int) else 0


def unknown(word: str, known: Sequence[str]) -> str:
    """What to tell somebody who has typed what is no subcommand: the nearest names, if any are near."""
    import difflib

    near = difflib.get_close_matches(word, [name for name in known if not name.startswith("-")], cutoff=0.6)
    meant = f"did you mean {' or '.join(near)}?" if near else "`exec-server --help` lists them"
    return f"there is no subcommand {word}; {meant}"


def application() -> cyclopts.App:
    """All subcommands."""
    import cyclopts

    app = cyclopts.App(
        name="exec-server",
        version=__version__,
        help="Run commands on a machine for somebody who is elsewhere. Without a command: serve, on stdio.",
        result_action="return_value",
    )

    @app.command
    def serve() -> int:
        """Run the server; `exec-server serve --help` lists its options."""
        raise AssertionError("told apart before the command line is parsed")

    @app.command(name="fs-helper")
    def fs_helper() -> int:
        """Carry out one file request: `read PATH`, or `call` with the request on standard input."""
        raise AssertionError("told apart before the command line is parsed")

    for name, home in COMMANDS.items():
        app.command(home, name=name)
    return app
