"""The program `exec-harness`, one module a subject."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cyclopts

COMMANDS = {
    "plugin": "harness.cli.plugin:app",
    "marketplace": "harness.cli.marketplace:app",
    "history": "harness.cli.history:app",
    "instructions": "harness.cli.instructions:app",
    "skills": "harness.cli.instructions:skills",
}
"""Each is imported only when it is used."""


def main() -> None:
    """Run what the command line names; exits with its status: 2 where the command line was wrong."""
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """The same with these arguments; the exit status."""
    import cyclopts

    from harness.cli.ending import USAGE, complain, ended

    words = list(argv)
    try:
        return ended(lambda: application()(words, exit_on_error=False, print_error=False))
    except cyclopts.CycloptsError as error:
        page = " ".join(["exec-harness", *[word for word in words[:2] if not word.startswith("-")]])
        return complain(f"{str(error).rstrip('.')}; see {page} --help", USAGE)


def application() -> cyclopts.App:
    """All subcommands."""
    import cyclopts

    from exec_server import __version__

    app = cyclopts.App(
        name="exec-harness",
        version=__version__,
        help="Plugins, history and instructions of a coding agent.",
        result_action="return_value",
    )
    for name, home in COMMANDS.items():
        app.command(home, name=name)
    return app
