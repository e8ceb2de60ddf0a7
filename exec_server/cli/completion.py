"""`exec-server completion`: a script that teaches a shell our subcommands and options."""

from __future__ import annotations

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a script for a shell, bash: `eval "$(exec-server completion bash)"` in ~/.bashrc.

    Parameters
    ----------
    shell
        zsh: a file `_exec-server` in a folder of `fpath`; fish: `~/.config/fish/completions/exec-server.fish`.
    """
    from exec_server.cli import application

    print(application().generate_completion(prog_name="exec-server", shell=shell))
    return 0
