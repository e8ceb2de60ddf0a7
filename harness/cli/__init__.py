"""The program `exec-harness`, one module a subject."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from exec_server.standard_fds import fill_standard_fds

if TYPE_CHECKING:
    import cyclopts

COMMANDS = {
    "plugin": ("harness.cli.plugin:app", "Make, check and list plugins."),
    "marketplace": ("harness.cli.marketplace:app", "Change what a marketplace offers."),
    "history": ("harness.cli.history:app", "Look at kept prompts, and drop the oldest."),
    "instructions": ("harness.cli.instructions:app", "Look at what a model is told in a folder."),
    "skills": ("harness.cli.instructions:skills", "Look at what a model is offered in a folder."),
}
"""Each is imported only when it is used."""


def main() -> None:
    """Run what the command line names; exits with its status: 2 where the command line was wrong."""
    fill_standard_fds()
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """The same with these arguments; the exit status."""
    import cyclopts

    from harness.cli.ending import USAGE, complain, ended

    words = list(argv)
    try:
        return ended(lambda: application()(words, exit_on_error=False, print_error=False))
    except cyclopts.CycloptsError as error:
        known = words[:2] if words and words[0] in COMMANDS else []
        page = " ".join(["exec-harness", *(word for word in known if not word.startswith("-"))])
        return complain(f"{str(error).rstrip('.')}; see {page} --help", USAGE)


def application() -> cyclopts.App:
    """All subcommands."""
    import cyclopts

    from exec_server.version import __version__

    app = cyclopts.App(
        name="exec-harness",
        version=__version__,
        help="Plugins, history and instructions of a coding agent.",
        result_action="return_value",
    )
    for name, (home, help) in COMMANDS.items():
        app.command(home, name=name, help=help)
    return app
