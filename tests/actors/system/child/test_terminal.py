"""A child on a terminal: it is the controlling one, has its size, and ^C and the end of input do what they
should.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import tty as raw_mode

import pytest

from actors.system.child.terminal import Terminal
from tests.actors.system.child.support import end, output_of, read_all, read_until, run, start, wait_exit


def test_the_terminal_is_the_controlling_one_and_the_child_in_its_foreground() -> None:
    """Otherwise ^C and SIGWINCH never arrive, and /dev/tty cannot be opened."""
    script = "tty; echo via-tty >/dev/tty; ps -o tpgid=,pgid= -p $$; test -t 0 -a -t 1 -a -t 2 && echo all"
    status, out, _ = run("sh", "-c", script, tty=True)
    lines = out.decode().split("\r\n")
    assert status == (0, None)
    assert lines[0].startswith("/dev/pts/")
    assert lines[1] == "via-tty"
    foreground, group = lines[2].split()
    assert foreground == group
    assert lines[3] == "all"


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (1, 1), (65535, 65535)])
def test_the_size_is_there_from_the_start(rows: int, cols: int) -> None:
    """A program that asks at once must not see 0 by 0."""
    assert run("stty", "size", tty=True, rows=rows, cols=cols)[1] == f"{rows} {cols}\r\n".encode()


def test_a_resize_reaches_the_child_as_sigwinch() -> None:
    code = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})\n"
        "print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGWINCH})\n"
        "print(*os.get_terminal_size(), flush=True)\n"
    )
    child = start(sys.executable, "-I", "-S", "-c", code, tty=True)
    assert child.master is not None
    read_until(child.master, b"ready")
    child.resize(rows=31, cols=97)
    assert b"97 31" in read_until(child.master, b"31\r\n")
    end(child)


def test_a_child_on_pipes_has_no_terminal() -> None:
    child = start("true")
    for call in (lambda: child.resize(24, 80), child.eof_char):
        with pytest.raises(ValueError, match="no open terminal"):
            call()
    wait_exit(child)
    child.release()


CONTROL_C = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
child = start("cat", tty=True)
os.write(child.master, b"x\\n")
read_until(child.master, b"x\\r\\nx\\r\\n")
os.write(child.master, b"\\x03")
say(tuple(wait_exit(child)))
"""


def test_control_c_kills_the_child_even_if_the_server_ignores_it() -> None:
    assert output_of(CONTROL_C) == [str((130, 2))]


def test_end_of_input_is_the_character_that_the_terminal_has_now() -> None:
    child = start("sh", "-c", "stty eof ^G; echo ready; cat; echo ended", tty=True)
    assert child.master is not None
    read_until(child.master, b"ready")
    assert child.eof_char() == b"\x07"
    os.write(child.master, b"line\n" + child.eof_char())
    assert read_all(child.master).endswith(b"line\r\nline\r\nended\r\n")
    wait_exit(child)
    child.release()


def test_in_raw_mode_no_character_ends_input() -> None:
    """Whatever we wrote then would be typed into the program."""
    child = start("cat", tty=True)
    assert child.master is not None
    raw_mode.setraw(child.master)
    assert child.eof_char() == b""
    end(child)


def test_a_hangup_ends_the_child_when_its_master_is_closed() -> None:
    child = start("cat", tty=True)
    child.close_streams()
    assert wait_exit(child) == (129, signal.SIGHUP)
    child.release()


def test_dropping_what_we_know_of_a_terminal_takes_no_time_and_closes_nothing() -> None:
    """ptyprocess's own sleeps 100 ms and closes a number that may be somebody else's by then."""
    child = start("cat", tty=True)
    assert child.master is not None
    terminal = Terminal(child.pid, child.master)
    began = time.monotonic()
    terminal.close()
    terminal.__del__()
    del terminal
    assert time.monotonic() - began < 0.05
    os.fstat(child.master)
    assert os.waitpid(child.pid, os.WNOHANG) == (0, 0)
    end(child)


def test_all_of_a_long_output_comes_before_the_end_of_the_terminal() -> None:
    """The tail must not be lost at the exit."""
    for _ in range(20):
        _, out, _ = run("sh", "-c", "head -c 20480 /dev/zero | tr '\\0' x", tty=True)
        assert len(out) == 20480
