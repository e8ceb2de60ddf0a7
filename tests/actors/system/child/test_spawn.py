"""What a started command finds: its descriptors, signals, session, directory, environment; and how its exit
is told.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from actors.system.child import Child, proc
from actors.system.child.table import CHILDREN
from tests.actors.system.child.support import (
    descriptors,
    end,
    eventually,
    output_of,
    read_all,
    read_until,
    run,
    start,
    wait_exit,
)

WAYS = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])


def test_output_and_exit_code_arrive() -> None:
    """The main job."""
    assert run("sh", "-c", "echo out; echo err >&2; exit 7") == ((7, None), b"out\n", b"err\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_death_by_signal_is_told_as_such(number: signal.Signals) -> None:
    """`kill -9` reported as exit 0 hides a crash."""
    status, _, _ = run("sh", "-c", f"kill -{int(number)} $$")
    assert status == (128 + number, number)


def test_an_exit_code_above_128_is_no_signal() -> None:
    assert run("sh", "-c", "exit 137")[0] == (137, None)


@WAYS
def test_child_has_the_three_standard_descriptors_and_no_other(tty: bool, tmp_path: Path) -> None:
    """A descriptor that leaks into a child keeps another child's pipe, or a client's socket, open."""
    inheritable = os.open(tmp_path / "secret", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(inheritable, True)
    try:
        _, out, _ = run("sh", "-c", "for f in /proc/self/fd/*; do echo ${f##*/}=$(readlink $f); done", tty=tty)
    finally:
        os.close(inheritable)
    # The shell's globbing and readlink run in processes of their own: only what exists in them all counts.
    numbers = {int(line.split(b"=")[0]) for line in out.split() if not line.endswith(b"=")}
    assert numbers == {0, 1, 2}


def test_stdin_is_dev_null_unless_asked_for() -> None:
    """A command that reads its stdin hangs for ever on a pipe that nobody closes."""
    assert run("sh", "-c", "readlink /proc/self/fd/0; cat")[1] == b"/dev/null\n"


def test_stdin_pipe_carries_input_and_its_end() -> None:
    child = start("cat", pipe_stdin=True)
    assert child.stdin is not None and child.stdout is not None
    os.write(child.stdin, b"typed")
    os.close(child.stdin)
    child.stdin = None
    assert read_all(child.stdout) == b"typed"
    assert wait_exit(child) == (0, None)
    child.release()


@WAYS
def test_our_descriptors_never_block_and_are_closed_on_exec(tty: bool) -> None:
    """A blocking one stops the whole server, an inheritable one outlives its child in another."""
    child = start("sleep", "1000", tty=tty, pipe_stdin=not tty)
    fds = [child.master] if tty else [child.stdin, child.stdout, child.stderr]
    for fd in fds:
        assert fd is not None
        assert not os.get_blocking(fd)
        assert not os.get_inheritable(fd)
    assert not os.get_inheritable(child.pidfd)
    assert child.tty is tty
    end(child)


@WAYS
def test_child_leads_its_own_session_and_group(tty: bool) -> None:
    child = start("sleep", "1000", tty=tty)
    assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid
    end(child)


HOSTILE = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1, signal.SIGINT})
tty = sys.argv[1] == "tty"
"""


@pytest.mark.parametrize("way", ["pipe", "tty"])
def test_signals_are_at_their_defaults_whatever_the_server_does_with_its_own(way: str) -> None:
    """Otherwise ^C and SIGTERM do nothing to a command, and `yes | head` never ends."""
    lines = output_of(
        HOSTILE + "say(run('grep', '-E', '^Sig(Blk|Ign)', '/proc/self/status', tty=tty)[1].decode())", way
    )
    values = dict(line.split(":") for line in lines if line)
    assert int(values["SigBlk"], 16) == 0
    assert int(values["SigIgn"], 16) == 0


@WAYS
def test_working_directory_and_arg0_are_as_asked(tty: bool, tmp_path: Path) -> None:
    place = tmp_path / "é with space"
    place.mkdir()
    script = 'pwd; printf "%s|" "$0" "$@"'
    _, out, _ = run("sh", "-c", script, "-first", "", "ünïcode", cwd=str(place), arg0="renamed", tty=tty)
    assert out.decode().replace("\r", "") == f"{place}\n-first||ünïcode|"
    assert run("sh", "-c", "tr '\\0' ' ' </proc/$$/cmdline", arg0="renamed")[1].startswith(b"renamed -c")


@pytest.mark.parametrize("env", [{}, {"A": "1"}, {"EMPTY": "", "LINES": "a\nb", "É": "ü\udcff"}])
def test_environment_is_exact(env: dict[str, str]) -> None:
    """A variable that leaks may be the server's secret; one that is missing breaks the command."""
    _, out, _ = run("/usr/bin/env", "-0", env=env)
    expected = {f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in env.items()}
    assert set(out.split(b"\0")[:-1]) == expected


def test_a_relative_program_is_found_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho ran $0\n")
    (tmp_path / "tool").chmod(0o755)
    assert run("./tool", cwd=str(tmp_path))[1] == b"ran ./tool\n"
    assert run("tool", cwd=str(tmp_path), env={"PATH": "/nowhere::/usr/bin"})[1] == b"ran tool\n"


def test_a_script_without_a_first_line_is_run_by_the_shell(tmp_path: Path) -> None:
    """As execvp(3) does, and with it every shell and upstream."""
    (tmp_path / "plain").write_text("echo $1\n")
    (tmp_path / "plain").chmod(0o755)
    assert run(str(tmp_path / "plain"), "argument")[1] == b"argument\n"


def test_a_script_that_is_still_being_written_is_started_when_it_is_closed(tmp_path: Path) -> None:
    """ETXTBSY: a command that follows its own creation by an instant."""
    script = tmp_path / "fresh"
    script.write_text("#!/bin/sh\necho ran\n")
    script.chmod(0o755)
    writing = os.open(script, os.O_WRONLY)
    closing = threading.Timer(0.005, os.close, [writing])
    closing.start()
    assert run(str(script))[1] == b"ran\n"
    closing.join()


def test_exit_is_seen_while_a_grandchild_holds_the_pipe() -> None:
    """Waiting for the end of output instead would hang a client for as long as the background job runs."""
    child = start("sh", "-c", "sleep 1000 & echo $!; exit 3")
    assert child.stdout is not None
    job = int(read_until(child.stdout, b"\n"))
    assert wait_exit(child) == (3, None)
    assert os.getsid(job) == child.pid  # lives: a natural exit kills nothing
    assert child.has_descendants()
    child.kill_tree()
    assert read_all(child.stdout) == b""  # the end of the pipe is the end of its last holder
    eventually(lambda: not child.has_descendants(), "the job lives on")
    child.release()


def test_reaping_before_the_exit_changes_nothing() -> None:
    child = start("cat", pipe_stdin=True)
    with pytest.raises(BlockingIOError):
        child.reap()
    assert child.signal_group(signal.SIGTERM)
    assert wait_exit(child) == (143, 15)
    assert child.reap() == (143, 15)
    assert child.pidfd == -1
    child.release()


def test_no_signal_is_sent_once_the_child_is_reaped() -> None:
    """Its number may be a stranger's by then."""
    child = start("true")
    wait_exit(child)
    assert not child.signal_group(signal.SIGKILL)
    child.release()


def test_signal_goes_to_the_whole_group() -> None:
    child = start("sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait")
    assert child.stdout is not None
    read_until(child.stdout, b"ready")
    assert child.signal_group(signal.SIGTERM)
    assert read_all(child.stdout) == b""  # all three have let go of the pipe
    assert wait_exit(child) == (143, 15)
    child.release()


def test_a_status_taken_by_somebody_else_is_told_as_unknown(caplog: pytest.LogCaptureFixture) -> None:
    """In somebody else's program a waitpid(-1) may be faster; we must not hang or raise."""
    child = start("sh", "-c", "exit 5")
    os.waitpid(child.pid, 0)
    assert wait_exit(child) == (255, None)
    assert "taken the exit status" in caplog.text
    child.release()


def test_a_child_released_alive_is_reaped_later() -> None:
    """Otherwise it stays a zombie for as long as the program runs."""
    child = start("cat", pipe_stdin=True)
    pid = child.pid
    child.release()  # closes its stdin, which ends it
    while True:
        run("true")
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
    assert pid not in CHILDREN


def test_five_hundred_starts_leave_no_descriptor_and_no_zombie() -> None:
    before, others = descriptors(), proc.children_of(os.getpid())
    for number in range(500):
        run("true", tty=number % 5 == 0)
    assert descriptors() == before
    assert set(proc.children_of(os.getpid())) <= set(others)  # servers of other tests


def test_children_started_by_eight_threads_get_none_of_each_others_descriptors() -> None:
    """A pipe end in a sibling keeps a stream open after its child has ended."""

    def some(count: int) -> set[bytes]:
        # 3 is the directory that ls reads.
        return {b" ".join(run("ls", "/proc/self/fd", tty=number % 2 == 0)[1].split()) for number in range(count)}

    with ThreadPoolExecutor(8) as threads:
        assert set().union(*threads.map(some, [12] * 8)) == {b"0 1 2 3"}


def test_the_standard_descriptors_of_the_server_may_be_closed() -> None:
    """Pipes then get the numbers 0 to 2, and must not be overwritten on their way into the child."""
    lines = output_of(
        "keep = os.dup(1); os.set_inheritable(keep, False)\n"
        "os.close(0); os.close(1); os.close(2)\n"
        "status, out, err = run('sh', '-c', 'cat; echo out; echo err >&2')\n"
        "os.write(keep, repr((tuple(status), out, err)).encode())\n"
    )
    assert lines == ["((0, None), b'out\\n', b'err\\n')"]


def test_children_get_back_the_soft_limit_of_open_files() -> None:
    """Programs that loop over all possible descriptors, or use select, break under a limit of a million."""
    lines = output_of(
        "import resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))\n"
        "say(process_setup.raise_open_files() == (256, hard))\n"
        "say(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))\n"
        "child = start('sh', '-c', 'read line; ulimit -Sn', pipe_stdin=True)\n"
        "os.write(child.stdin, b'go\\n')\n"
        "say(read_until(child.stdout, b'\\n').decode())\n"
    )
    assert lines[:3] == ["True", "True", "256"]


def test_a_child_is_small() -> None:
    """A thousand of them must fit."""
    import sys

    child = start("true")
    assert isinstance(child, Child)
    assert not hasattr(child, "__dict__")
    assert sys.getsizeof(child) < 200
    wait_exit(child)
    child.release()
