"""Each start that fails says what was at fault, and leaves nothing behind (the fixture of this folder)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from actors.system.launch import launch
from protocol.errors import SpawnError
from tests.actors.system.child.support import ENV, output_of, request

WAYS = pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])


def failure(*argv: str, **more: object) -> SpawnError:
    with pytest.raises(SpawnError) as caught:
        launch(request(*argv, **more))  # type: ignore[arg-type]
    return caught.value


def said(error: SpawnError) -> tuple[object, ...]:
    """kind, reason, and the text up to where the wire's own ends."""
    assert error.data is not None
    return error.data["kind"], error.data["reason"], error.message.split(": ")[0]


ENOENT = "No such file or directory (os error 2)"
EACCES = "Permission denied (os error 13)"


@WAYS
def test_a_missing_program_and_a_missing_directory_are_told_apart(tty: bool) -> None:
    """Both are errno 2, and a person who is told just that looks in the wrong place."""
    error = failure("/no/such/program", tty=tty)
    assert said(error) == ("spawnNotFound", "program", ENOENT)
    assert error.data is not None and error.data["path"] == "/no/such/program"
    error = failure("true", cwd="/no/such/place", tty=tty)
    assert said(error) == ("spawnNotFound", "cwd", ENOENT)
    assert error.data is not None and error.data["path"] == "/no/such/place"
    assert error.message == f"{ENOENT}: cwd /no/such/place"


def test_a_bare_name_that_is_nowhere() -> None:
    assert said(failure("nonesuch")) == ("spawnNotFound", "program", ENOENT)
    error = failure("nonesuch", tty=True)
    assert error.message == (f'Unable to spawn nonesuch because:\nNo viable candidates found in PATH "{ENV["PATH"]}"')
    assert said(error)[:2] == ("spawnNotFound", "program")


@WAYS
def test_the_servers_own_path_is_searched_but_not_told(tty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may name directories that are nobody's business."""
    monkeypatch.setenv("PATH", "/secret/place")
    assert "/secret" not in str(failure("nonesuch", env={}, tty=tty).message)


@WAYS
def test_what_may_not_be_executed(tty: bool, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("text")
    for program in (str(tmp_path), str(tmp_path / "plain"), "./plain"):
        error = failure(program, cwd=str(tmp_path), tty=tty)
        assert said(error) == ("spawnPermissionDenied", "program", EACCES)
    assert said(failure("plain", env={"PATH": str(tmp_path)}, tty=tty)) == (
        "spawnPermissionDenied",
        "program",
        EACCES,
    )


@WAYS
def test_a_directory_that_is_a_file(tty: bool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = failure("true", cwd=str(tmp_path / "file"), tty=tty)
    assert said(error) == ("spawnFailed", "cwd", "Not a directory (os error 20)")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to become")
def test_a_directory_that_may_not_be_entered(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "closed").mkdir(mode=0o700)
    lines = output_of(
        "from protocol.errors import SpawnError\n"
        "os.chmod(sys.argv[1], 0o700)\n"
        "os.setresuid(65534, 65534, 65534)\n"
        "try: start('true', cwd=sys.argv[1])\n"
        "except SpawnError as error: say(error.data['kind'], error.data['reason'])\n",
        str(tmp_path / "closed"),
    )
    assert lines == ["spawnPermissionDenied cwd"]


@WAYS
def test_a_missing_interpreter_is_told_as_such(tty: bool, tmp_path: Path) -> None:
    """The program that `No such file` seems to speak of is plainly there."""
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    assert said(failure("./script", cwd=str(tmp_path), tty=tty)) == ("spawnNotFound", "interpreter", ENOENT)


def test_no_program_and_no_arguments() -> None:
    assert failure("").message == "missing program for pipe spawn"
    assert failure("", tty=True).message == "missing program for PTY spawn"
    assert said(failure()) == ("spawnFailed", "argv", "argv must not be empty")


@WAYS
def test_nul_and_lone_surrogates_are_refused(tty: bool) -> None:
    """A NUL would silently cut an argument short."""
    assert said(failure("a\0b", tty=tty)) == ("spawnFailed", "argv", "nul byte found in provided data")
    assert said(failure("true", env={"A": "\0"}, tty=tty))[:2] == ("spawnFailed", "env")
    assert said(failure("true", arg0="\0", tty=tty))[:2] == ("spawnFailed", "arg0")
    assert said(failure("true", cwd="/tmp\0/x", tty=tty))[:2] == ("spawnFailed", "cwd")
    assert said(failure("true", "\ud800", tty=tty))[:2] == ("spawnFailed", "argv")


@WAYS
def test_too_many_bytes_of_arguments(tty: bool) -> None:
    error = failure("true", "x" * 200_000, tty=tty)
    assert said(error) == ("spawnFailed", "size", "Argument list too long (os error 7)")
    assert error.data is not None and error.data["longest"] == 200_001


@WAYS
def test_a_program_that_stays_open_for_writing(tty: bool, tmp_path: Path) -> None:
    (tmp_path / "busy").write_text("#!/bin/sh\n")
    (tmp_path / "busy").chmod(0o755)
    with open(tmp_path / "busy", "a"):
        error = failure(str(tmp_path / "busy"), tty=tty)
    assert error.data is not None and error.data["errno"] == errno.ETXTBSY


EXHAUSTED = """
import resource
from protocol.errors import SpawnError
tty = sys.argv[1] == "tty"
start("true", tty=tty).pidfd  # everything that is loaded or made on first use
ticket = launch_soon(request("true"))
assert readable(ticket.fileno())
end(ticket.result())
before = descriptors()
for free in range(8):
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before) + 2 + free, 4096))
    child = None
    try:
        child = start("true", tty=tty, pipe_stdin=True)
        verdict = "started"
    except SpawnError as error:
        verdict = f"{error.data['kind']} {error.data['reason']} {error.data['errno']}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    if child:
        end(child)
    # A kill that goes on in a thread, on a busy machine, has files of /proc open meanwhile.
    eventually(lambda: descriptors() == before, (free, verdict, descriptors(), before))
    say(verdict)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    pass
"""


@pytest.mark.parametrize("way", ["pipe", "tty"])
def test_with_few_descriptors_left_a_start_fails_cleanly_or_succeeds(way: str) -> None:
    """Whichever of its descriptors is the one too many: nothing is leaked, and it is said to be worth trying
    again.
    """
    lines = output_of(EXHAUSTED, way)
    assert lines[-1] == "started"
    assert lines[0] == f"resourceExhausted descriptors {errno.EMFILE}"
    assert set(lines) == {"started", lines[0]}


NO_PROCESS = """
import resource
from protocol.errors import SpawnError
if os.geteuid() == 0:
    os.setresuid(54321, 54321, 54321)  # the limit does not bind root
hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
before = descriptors()
for limit in (0, hard):
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, hard))
    try:
        end(start("true"))
        say("started")
    except SpawnError as error:
        say(error.data["kind"], error.data["reason"])
    assert descriptors() == before
"""


def test_no_process_left() -> None:
    """EAGAIN: a clear answer, and the next start works."""
    assert output_of(NO_PROCESS) == ["resourceExhausted processes", "started"]
