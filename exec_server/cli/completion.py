"""`exec-server completion`: a script that teaches a shell our subcommands and options."""

from __future__ import annotations

from typing import Literal

from exec_server.cli.exit_status import put


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a script for a shell, bash: `eval "$(exec-server completion bash)"` in ~/.bashrc.

    Parameters
    ----------
    shell
        zsh: a file `_exec-server` in a folder of `fpath`; fish: `~/.config/fish/completions/exec-server.fish`.
    """
    from exec_server.cli import application

    put(application().generate_completion(prog_name="exec-server", shell=shell) + "\n")
    return 0
