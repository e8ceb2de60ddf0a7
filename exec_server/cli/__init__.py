"""The command line, one module a subcommand. `serve` and `fs-helper` are told apart before `run`, and need nothing that
`run` loads.
"""

from __future__ import annotations

from collections.abc import Sequence

from exec_server import __version__


def run(argv: Sequence[str]) -> int:
    """Run a subcommand other than `serve`; its exit status."""
    import cyclopts

    from exec_server.cli.config import app as config
    from exec_server.cli.doctor import doctor
    from exec_server.cli.replay import replay
    from exec_server.cli.schema import schema

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

    app.command(config)
    app.command(doctor)
    app.command(schema)
    app.command(replay)
    status = app(list(argv))
    return status if isinstance(status, int) else 0
