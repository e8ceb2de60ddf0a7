"""The program `exec-server`, where two command-line libraries meet.

`serve`, the default, has its flags from the table of settings, by argparse. The other subcommands are functions, whose
signatures cyclopts reads. Loading cyclopts takes 50 ms, which every client that starts a server of its own would wait
for, and `fs-helper` at every sandboxed request; so these two are told apart before it is loaded.
"""

from __future__ import annotations

import sys

from exec_server.safe_path import make_safe


def main() -> None:
    """Run the subcommand that the command line names; exits with its status."""
    make_safe()
    # Only now, since they are looked up as well.
    import signal

    from exec_server.standard_fds import fill_standard_fds

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # who can clean up asks to be told; the others just end
    fill_standard_fds()
    argv = sys.argv[1:]
    if not argv or argv[0] == "serve" or (argv[0].startswith("-") and argv[0] not in ("-h", "--help")):
        from exec_server.server.program import serve

        sys.exit(serve(argv[1:] if argv[:1] == ["serve"] else argv))
    if argv[0] == "fs-helper":
        from actors.system.files import carry_out
        from actors.system.filesystem.helper import main as fs_helper

        sys.exit(fs_helper(argv[1:], carry_out))
    from exec_server.cli import main as other

    sys.exit(other(argv))


if __name__ == "__main__":
    main()
