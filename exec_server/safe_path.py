"""Where modules are looked up: never in the folder that a program is started in, nor in that of its script.

Commands and whoever else writes there would choose what the server runs. It is the first that is imported, and imports
only what Python has loaded already.
"""

import os
import sys


def make_safe() -> None:
    """Take out of `sys.path` what the interpreter has put there itself (as `python -P` does), relative entries of
    PYTHONPATH, and what does not exist. A folder that this package is in stays, as the last.
    """
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    current = _current()
    own = {"", current, os.path.dirname(os.path.realpath(sys.argv[0]))}
    put_first = not sys.flags.safe_path and bool(sys.path) and sys.path[0] in own
    unsafe = {current} if _relative_in_environment() else set()
    kept = [path for path in sys.path[put_first:] if os.path.isabs(path) and path not in unsafe]
    sys.path[:] = [path for path in kept if os.path.exists(path)]
    if home not in sys.path:
        sys.path.append(home)


def _current() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it has been removed


def _relative_in_environment() -> bool:
    entries = os.environ.get("PYTHONPATH", "")
    return bool(entries) and not all(os.path.isabs(entry) for entry in entries.split(os.pathsep))
