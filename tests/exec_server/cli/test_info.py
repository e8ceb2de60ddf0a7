"""`exec-server info`, and what shells are taught."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.exec_server.cli.commands import PROGRAM, Inside, environ
from tests.support.program import Program


def test_info(server: Program, inside: Inside) -> None:
    """Lost: what a machine is, for people and for programs."""
    facts = json.loads((inside.type(server.url, "info", "--json")).stdout)
    assert facts["url"] == server.url
    assert facts["platformOs"] == "linux" and facts["cwd"].startswith("/") and "attach" in facts["extensions"]
    lines = (inside.type(server.url, "info")).stdout.decode().splitlines()
    assert dict(line.split(maxsplit=1) for line in lines)["cwd"] == facts["cwd"]
    local = json.loads((inside.type(None, "info", "--json")).stdout)
    assert local["url"] == "local" and local["cwd"] == os.getcwd()


def completed(*lines: str) -> list[set[str]]:
    """What bash offers for the last word of each line."""
    program = " ".join(PROGRAM)
    script = f"""
    exec-server() {{ {program} "$@"; }}
    eval "$({program} completion bash)"
    for line; do
        COMP_WORDS=(exec-server $line); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_LINE="exec-server $line"
        COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()
        _exec_server exec-server "${{COMP_WORDS[COMP_CWORD]}}" ""
        echo "${{COMPREPLY[@]}}"
    done
    """
    out = subprocess.check_output(["bash", "--norc", "-c", script, "bash", *lines], env=environ(None), text=True)
    return [set(line.split()) for line in out.splitlines()]


def test_bash_completes() -> None:
    """Lost: the Tab key."""
    subcommands, options = completed("r", "run --")
    assert subcommands >= {"run", "replay"} and "ps" not in subcommands
    assert options >= {"--detach", "--tty", "--url"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script(inside: Inside, shell: str) -> None:
    done = inside.type(None, "completion", shell)
    assert done.status == 0 and b"exec-server" in done.stdout and b"detach" in done.stdout


def test_every_subcommand_explains_itself(inside: Inside) -> None:
    """Lost: `--help`; each module is imported by it."""
    for name in ("run", "ps", "logs", "attach", "wait", "kill", "info", "completion"):
        done = inside.type(None, name, "--help")
        assert done.status == 0 and b"Usage: exec-server " + name.encode() in done.stdout


def test_a_reader_that_leaves_is_no_fault() -> None:
    script = '"$@" | head -n 1 >/dev/null; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *PROGRAM, "schema"],
        env=environ(None),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) in (("141\n", ""), ("0\n", ""))
