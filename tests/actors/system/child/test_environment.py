"""What of the server's environment a command gets (docs/protocol.md, "process/start"), and where its program is
looked for.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.system.child.environment import _matcher, child_environment, find_program, login_shell
from protocol.process import EnvPolicy

SERVER = {
    "HOME": "/home/me",
    "PATH": "/bin",
    "LANG": "C.UTF-8",
    "USER": "me",
    "Api_Key": "1",
    "SECRET_TOKEN": "2",
    "SRVVAR": "3",
    "EXEC_SERVER_TOKEN": "x",
    "EXEC_SERVER_URL": "x",
    "NOTIFY_SOCKET": "x",
    "LISTEN_FDS": "x",
    "LISTEN_PID": "x",
    "WATCHDOG_USEC": "x",
    "NOTIFY_SOCKET_PATH": "4",
}


def made(env: dict[str, str], **policy: object) -> dict[str, str]:
    """The environment under a policy that does nothing but what the test says."""
    whole: dict[str, object] = {
        "inherit": "all",
        "ignore_default_excludes": True,
        "exclude": [],
        "set": {},
        "include_only": [],
    }
    whole.update(policy)
    return child_environment(env, EnvPolicy(**whole), tty=False, server=SERVER)  # type: ignore[arg-type]


def test_without_a_policy_nothing_is_inherited() -> None:
    assert child_environment({"A": "1"}, None, tty=False) == {"A": "1"}
    assert child_environment({}, None, tty=False) == {}


def test_a_terminal_gets_the_login_shell_unless_it_has_one() -> None:
    assert child_environment({}, None, tty=True) == {"SHELL": login_shell()}
    assert child_environment({"SHELL": "/x"}, None, tty=True) == {"SHELL": "/x"}


def test_what_is_the_servers_own_is_never_inherited() -> None:
    """The token would give a command the power over the server; the sockets are systemd's for the server."""
    assert set(made({})) == set(SERVER) - {
        "EXEC_SERVER_TOKEN",
        "EXEC_SERVER_URL",
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "LISTEN_PID",
        "WATCHDOG_USEC",
    }
    assert made({"EXEC_SERVER_URL": "asked for"}, inherit="none") == {"EXEC_SERVER_URL": "asked for"}


def test_core_and_none() -> None:
    assert made({}, inherit="core") == {name: SERVER[name] for name in ("HOME", "PATH", "LANG", "USER")}
    assert made({"A": "1"}, inherit="none") == {"A": "1"}


def test_secrets_are_excluded_by_default() -> None:
    assert made({}, ignore_default_excludes=False).keys() == made({}).keys() - {"Api_Key", "SECRET_TOKEN"}


def test_the_order_is_exclude_set_include_only_and_the_clients_own_last() -> None:
    assert "SRVVAR" not in made({}, exclude=["srv*", "ho?e"])
    assert "HOME" not in made({}, exclude=["srv*", "ho?e"])
    assert made({}, inherit="none", exclude=["Z"], set={"Z": "9"}) == {"Z": "9"}
    assert made({"A": "1"}, include_only=["path", "srv*"], set={"Z": "9"}) == {
        "A": "1",
        "PATH": "/bin",
        "SRVVAR": "3",
    }
    assert made({"Z": "mine"}, inherit="none", set={"Z": "9"}) == {"Z": "mine"}


PATTERN = st.text(alphabet="aAbé*?.\n", max_size=12)
NAME = st.text(alphabet="aAbé.\n", max_size=12)


@given(st.lists(PATTERN, max_size=3), NAME)
def test_globs_match_as_fnmatch_does_in_any_case(patterns: list[str], name: str) -> None:
    expected = any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)
    assert bool(_matcher(tuple(patterns)).match(name)) == expected


def test_a_hostile_pattern_takes_no_time() -> None:
    """One client's pattern must not stop the server for everybody."""
    began = time.monotonic()
    assert not _matcher(("*a" * 50 + "b",)).match("a" * 10_000)
    assert time.monotonic() - began < 1


def test_programs_are_found_as_execvp_finds_them(tmp_path: Path) -> None:
    cwd = bytes(tmp_path)
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
    (tmp_path / "two" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "two" / "tool").chmod(0o755)
    (tmp_path / "one" / "tool").mkdir()  # a directory of that name is passed over
    assert find_program(b"tool", cwd, b"/nowhere:one:two") == b"two/tool"
    assert find_program(b"tool", cwd, bytes(tmp_path / "two")) == bytes(tmp_path / "two" / "tool")
    assert find_program(b"two/tool", cwd, b"") == b"two/tool"
    for name, path, code in (
        (b"tool", b"one", errno.EACCES),
        (b"tool", b"", errno.ENOENT),
        (b"one/missing", b"two", errno.ENOENT),
        (b"two/tool/x", b"two", errno.ENOTDIR),
    ):
        with pytest.raises(OSError) as caught:
            find_program(name, cwd, path)
        assert caught.value.errno == code, name


def test_h8a_a_path_that_no_program_could_be_given_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: the threads for starts, for minutes, to a PATH of a million folders."""
    looked = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path: looked.append(path) or stat(path))
    with pytest.raises(OSError) as caught:
        find_program(b"tool", b"/", b"/x:" * 2**20)
    assert (caught.value.errno, looked) == (errno.E2BIG, [])
    with pytest.raises(FileNotFoundError):
        find_program(b"tool", b"/", b"/x:" * 40_000 + b"/" + b"y" * 5000)
    assert len(looked) == 1, "the same folder is looked at once, and one that is too long not at all"


def test_the_login_shell_is_one_that_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: a terminal whose programs start a shell that is not there, or another than clients were told."""
    monkeypatch.setenv("SHELL", "/bin/sh")
    assert login_shell() == "/bin/sh"
    for unusable in ("/no/such/shell", "bash", ""):
        monkeypatch.setenv("SHELL", unusable)
        assert os.access(login_shell(), os.X_OK) and login_shell() != unusable
