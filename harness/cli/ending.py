"""How the program ends: with a status, and with one line on stderr where something went wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter

from exec_server.printable import printable
from exec_server.standard_fds import discard_stdout, say
from harness.errors import HarnessError
from protocol.errors import ExecServerError

FAILED = 1
USAGE = 2

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON, for programs.")]
Flag = Parameter(negative=())
"""A flag that can only be set."""


def ended(command: Callable[[], object]) -> int:
    """Run a subcommand; its exit status: FAILED where it raised, 130 after ^C, 141 if nobody reads its output."""
    try:
        status = command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        discard_stdout()
        return 141
    except cyclopts.CycloptsError:
        raise
    except ImportError as error:
        return complain(f"{error}: pip install 'exec-server[harness]'", FAILED)
    except ExecServerError as error:
        return complain(error.message, FAILED)
    except OSError as error:
        if error.filename is None:
            discard_stdout()  # it is what could not be written
        where = "cannot write to standard output: " if error.filename is None else f"{error.filename}: "
        return complain(f"{where}{error.strerror or error}", FAILED)
    except (HarnessError, ValueError) as error:
        return complain(str(error), FAILED)
    except Exception as error:
        return complain(f"a fault of exec-harness, please report it: {error!r}", FAILED)
    return status if isinstance(status, int) else 0


def complain(message: str, status: int) -> int:
    """One line on stderr; `status`."""
    tell(message)
    return status


def tell(message: str) -> None:
    """One line on stderr, if that is still there."""
    say(2, f"exec-harness: {printable(' '.join(message.split()))}")


Home = Annotated[
    Path | None,
    Parameter(
        name="--home",
        help="The folder with the agent's state; without it EXEC_HARNESS_HOME, else `exec-harness` in the user's state "
        "folder.",
    ),
]


def home_of(home: Path | None) -> Path:
    """The folder that the options mean (XDG base directory specification)."""
    if home is not None:
        return home.expanduser()
    if named := os.environ.get("EXEC_HARNESS_HOME"):
        return Path(named).expanduser()
    state = os.environ.get("XDG_STATE_HOME", "")
    return Path(state if os.path.isabs(state) else os.path.expanduser("~/.local/state")) / "exec-harness"
