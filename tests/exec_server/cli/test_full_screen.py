"""Programs that need a terminal, used by hand through `exec-server run`: tmux types and looks."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exec_server.cli.commands import PROGRAM, environ
from tests.exec_server.cli.tmux import Tmux
from tests.support.cutting_proxy import CuttingProxy
from tests.support.program import Facts, Program, eventually

RUN = [*PROGRAM, "run", "--"]
STATE = 'echo "status $?, $(stty -a | grep -ow -e "-\\?icanon" -e "-\\?echo" | tr "\\n" " ")"'
"""Shell that tells the exit status, and whether the terminal is as it was."""
RESTORED = re.compile(r"status (\d+), icanon echo")


@pytest.fixture
def tmux(server: Program, tmp_path: Path) -> Iterator[Tmux]:
    with Tmux(tmp_path, environ(server.url)) as terminal:
        yield terminal


def ended(tmux: Tmux) -> int:
    """The exit status, once the command has left the terminal as it was."""
    match = RESTORED.search(tmux.until(lambda screen: RESTORED.search(screen) is not None, "a restored terminal"))
    assert match is not None
    return int(match[1])


def test_vim(tmux: Tmux, tmp_path: Path) -> None:
    """Lost: an editor that fills the screen, follows a resize, and leaves the terminal as it was."""
    file = tmp_path / "note"
    tmux.run([*RUN, "vim", "-u", "NONE", "-i", "NONE", str(file)], STATE)
    tmux.shows("~")
    tmux.keys("i")
    tmux.text("typed elsewhere")
    tmux.keys("Escape")
    tmux.shows("typed elsewhere")
    tmux.resize(100, 31)
    tmux.until(lambda screen: screen.count("~") == 29, "29 empty lines of vim")
    tmux.keys(":wq", "Enter")
    assert ended(tmux) == 0
    assert file.read_text() == "typed elsewhere\n"
    assert tmux.value("alternate_on") == "0"


def test_top(tmux: Tmux) -> None:
    """Lost: a program that repaints by itself, and takes single keys."""
    tmux.run([*RUN, "top", "-d", "0.5"], STATE)
    tmux.shows("load average")
    tmux.shows("PID")
    tmux.keys("l")
    tmux.until(lambda screen: "load average" not in screen, "the first line gone")
    tmux.keys("q")
    assert ended(tmux) == 0


def test_python(tmux: Tmux) -> None:
    """Lost: a prompt with a line editor; ^C for the program and not for us."""
    tmux.run([*RUN, sys.executable, "-q"], STATE)
    tmux.shows(">>>")
    tmux.text("6 * 7")
    tmux.keys("Enter")
    tmux.shows("42")
    tmux.text("import time; time.sleep(1000)")
    tmux.keys("Enter")
    tmux.shows("sleep(1000)")
    tmux.keys("C-c")
    tmux.shows("KeyboardInterrupt")
    tmux.text("import os; os._exit(5)")
    tmux.keys("Enter")
    assert ended(tmux) == 5


def test_less(tmux: Tmux, tmp_path: Path) -> None:
    """Lost: a pager, and the end of the screen where it belongs after a resize."""
    file = tmp_path / "lines"
    file.write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    tmux.run([*RUN, "less", str(file)], STATE)
    tmux.shows("line 23")
    tmux.keys("G")
    tmux.shows("line 1000")
    tmux.keys("g")
    tmux.until(lambda screen: screen.startswith("line 1\n"), "the beginning")  # less drops a key at a resize
    tmux.resize(80, 41)
    tmux.shows("line 40")
    tmux.text("/line 777")
    tmux.keys("Enter")
    tmux.shows("line 790")
    tmux.keys("q")
    assert ended(tmux) == 0


def test_stop_and_quit_keys_are_bytes(tmux: Tmux) -> None:
    r"""Lost: job control of a shell elsewhere; ^Z and ^\ would stop and end the wrong program."""
    tmux.run([*RUN, "bash", "--norc", "-i"], STATE)
    tmux.shows("bash-")
    tmux.text("sleep 1000")
    tmux.keys("Enter")
    tmux.shows("sleep 1000")
    tmux.keys("C-z")
    tmux.shows("Stopped")
    tmux.text("fg")
    tmux.keys("Enter")
    tmux.until(lambda screen: screen.count("sleep 1000") == 3, "the job in the foreground")
    tmux.keys("C-\\")
    tmux.shows("Quit")
    tmux.text("exit 7")
    tmux.keys("Enter")
    assert ended(tmux) == 7


def ours(tmux: Tmux) -> int:
    """The pid of the command line in the window."""
    pid = int(tmux.value("pane_pid"))
    while b"exec_server" not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
        pid = Facts(pid).children()[0]
    return pid


def test_a_signal_restores_the_terminal(tmux: Tmux) -> None:
    """Lost: the shell that we were started from, after `kill` of a command line in the middle of vim."""
    tmux.run([*RUN, "vim", "-u", "NONE", "-i", "NONE"], STATE)
    tmux.shows("~")
    os.kill(ours(tmux), signal.SIGTERM)
    assert ended(tmux) == 128 + signal.SIGTERM
    assert tmux.value("alternate_on") == "0"


def test_a_stop_from_elsewhere_gives_the_terminal_back(tmux: Tmux) -> None:
    """Lost: a usable shell while the command line is stopped, and the program's screen afterwards."""
    tmux.run(["bash", "--norc", "-i"])
    tmux.shows("bash-")
    tmux.text(shlex.join([*RUN, "sh", "-c", "echo $((6 * 7)); exec cat"]))
    tmux.keys("Enter")
    tmux.shows("42")
    tmux.text("first")
    tmux.keys("Enter")
    tmux.until(lambda screen: screen.count("first") == 2, "what was typed, and its echo")
    os.kill(ours(tmux), signal.SIGTSTP)
    tmux.shows("Stopped")
    tmux.text("fg")
    tmux.keys("Enter")
    tmux.text("second")
    tmux.keys("Enter")
    tmux.shows("\nsecond\n")
    tmux.keys("C-d")
    tmux.until(lambda screen: screen.rstrip().rsplit("\n", 1)[-1].startswith("bash-"), "the shell's prompt")
    tmux.text("echo back $((1 + 1))")
    tmux.keys("Enter")
    tmux.shows("back 2")


@pytest.mark.anyio
async def test_a_lost_connection_restores_the_terminal(server: Program, tmp_path: Path) -> None:
    """Lost: the shell that we were started from, and a way out: ^C gives up waiting for the server."""
    async with CuttingProxy(server.url) as proxy:
        with Tmux(tmp_path, environ(proxy.url)) as tmux:

            def on_screen(text: str) -> bool:
                return text in tmux.screen()

            tmux.run([*RUN, "vim", "-u", "NONE", "-i", "NONE"], STATE)
            await eventually(lambda: on_screen("~"), "vim")
            proxy.refuse = True
            proxy.cut()
            await eventually(lambda: on_screen("reconnecting"), "a line that says so")
            tmux.keys("C-c")
            await eventually(lambda: RESTORED.search(tmux.screen()), "a restored terminal")
            assert "status 130" in tmux.screen()
            assert tmux.value("alternate_on") == "0"
