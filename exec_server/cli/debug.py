"""`exec-server debug`: look into a server that runs."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import cyclopts

from exec_server.cli.exit_status import put
from exec_server.printable import printable
from exec_server.standard_fds import say

app = cyclopts.App(name="debug", help="Look into a server that runs on this machine.")

PATIENCE_S = 10.0
"""How long the server may take, in seconds."""


class NoDumpError(Exception):
    """There is no dump; the text says why, on one line."""


@app.command
def dump(pid: int, /, *, argv: bool = False) -> int:
    """Print actors, mailboxes, sessions and processes of the server with this PID, as JSON.

    Parameters
    ----------
    pid
        Process id of the server.
    argv
        With the arguments of commands, which may be secret.
    """
    try:
        found = ask(pid, argv)
    except NoDumpError as error:
        say(2, printable(f"Error: {error}"))
        return 1
    put(json.dumps(found, indent=2) + "\n")
    return 0


def ask(pid: int, argv: bool) -> object:
    """The dump of a server. Raises NoDumpError."""
    from exec_server.server.dump import address_of, user_of

    if not answers_to_the_signal(pid):
        raise NoDumpError(f"process {pid} is no exec-server that runs")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(address_of(pid))
            listener.listen(1)
            listener.settimeout(PATIENCE_S)
            os.kill(pid, signal.SIGUSR1)
            connection, _ = listener.accept()
            with connection:
                if user_of(connection) not in (0, os.geteuid(), os.stat(f"/proc/{pid}").st_uid):
                    raise NoDumpError("somebody else answered")
                connection.settimeout(PATIENCE_S)
                connection.sendall(json.dumps({"argv": argv}).encode() + b"\n")
                return json.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
        except TimeoutError:
            raise NoDumpError(f"process {pid} does not answer; its log may have the dump") from None
        except (OSError, ValueError) as error:
            raise NoDumpError(f"process {pid}: {getattr(error, 'strerror', None) or error}") from None


def answers_to_the_signal(pid: int) -> bool:
    """Whether it is a server that catches SIGUSR1: others would die of it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(caught >> (signal.SIGUSR1 - 1) & 1) and (b"exec_server" in command or b"exec-server" in command)
