"""Where settings come from, what is said of wrong ones, and what the commands about them show."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exec_server.server.config import (
    ALIASES,
    OPTIONS,
    Config,
    ConfigError,
    flag_of,
    variable_of,
)
from exec_server.server.config_file import settings_of_table
from exec_server.server.config_sources import load, load_with_sources
from tests.support.client import PATIENCE_S, expect_error
from tests.support.client import session as client_session
from tests.support.program import ROOT, program

pytestmark = pytest.mark.anyio

EVERYTHING = """
listen = "ws://127.0.0.1:0"
encoding = "msgpack"
session_ttl = 5
process_retention = 1.5
retained_output_bytes_per_process = 4096
max_processes_per_connection = 7
allow_prepared_exec = false
allow_host = ["a.example", "b.example"]
ws_auth = "capability-token"
ws_token_file = "/etc/token"
log_level = "info"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "exec-server.toml"
    path.write_text(EVERYTHING)
    return path


def problems(argv: list[str], environ: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(argv, environ or {})
    assert "\n" not in str(caught.value)
    return caught.value.problems


def test_a_file_says_what_flags_say(file: Path) -> None:
    """Lost: a setting, between a file and the server."""
    config = load(["--config", str(file)], {})
    assert config == load([], {"EXEC_SERVER_CONFIG": str(file)})
    flags = "--listen ws://127.0.0.1:0 --encoding msgpack --session-ttl 5 --process-retention 1.5 --log-level info"
    flags += " --retained-output 4096 --max-processes-per-session 7 --allow-prepared-exec no"
    flags += " --allow-host a.example,b.example --ws-auth capability-token --ws-token-file /etc/token --config "
    assert config == load([*flags.split(), str(file)], {})


def test_flags_win_over_variables_and_these_over_the_file(file: Path) -> None:
    """Lost: a way to change one setting for one run."""
    argv, environ = ["--config", str(file)], {"EXEC_SERVER_SESSION_TTL": "6", "EXEC_SERVER_LOG_LEVEL": ""}
    assert load(argv, {}).session_ttl == 5
    with pytest.raises(ConfigError, match="EXEC_SERVER_LOG_LEVEL"):
        load(argv, environ)
    del environ["EXEC_SERVER_LOG_LEVEL"]
    assert load(argv, environ).session_ttl == 6
    assert load([*argv, "--session-ttl", "7"], environ).session_ttl == 7
    assert load(argv, {**environ, "EXEC_SERVER_RETAINED_OUTPUT": "9"}).retained_output == 9
    sources = load_with_sources([*argv, "--log-level", "debug"], environ).sources
    assert sources["session_ttl"] == "EXEC_SERVER_SESSION_TTL"
    assert sources["retained_output"] == f"{file}: retained_output_bytes_per_process"
    assert sources["log_level"] == "--log-level"
    assert "record" not in sources


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Lost: an hour, one mistake at a time."""
    path = tmp_path / "c.toml"
    path.write_text(
        'sesion_ttl = 5\nretain_head = "x"\nlisten = 7\nallow_host = "a"\nrecord_input = 1\nzzz = 1\n[record]\n'
    )
    found = problems(["--config", str(path), "--stdin-queue", "0"], {"EXEC_SERVER_PING_INTERVAL": "never"})
    assert found[0] == f"{path}: unknown key sesion_ttl; did you mean session_ttl?"
    assert found[1] == f"{path}: retain_head must be a whole number, not 'x'"
    assert found[2] == f"{path}: listen must be a string, not 7"
    assert found[3] == f"{path}: allow_host must be an array of strings, not 'a'"
    assert found[4] == f"{path}: record_input must be true or false, not 1"
    assert found[5] == f"{path}: unknown key zzz"
    assert found[6].startswith(f"{path}: record must be a string")
    assert found[7].startswith("EXEC_SERVER_PING_INTERVAL: ")
    assert found[8].startswith("--stdin-queue: ")
    assert len(found) == 9


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--sesion-ttl", "5"], "unknown argument --sesion-ttl; did you mean --session-ttl?"),
        (["--session", "5"], "unknown argument --session"),
        (["--config", "/none"], "cannot read --config /none: No such file or directory"),
        (["--config", "/dev/zero"], "/dev/zero: more than 1048576 bytes are no configuration"),
        (
            ["--retained-output", "1", "--retained-output-bytes-per-process", "2"],
            "--retained-output-bytes-per-process and --retained-output are the same setting",
        ),
        (
            ["--allow-direct-exec", "no", "--allow-prepared-exec", "no"],
            "allow_direct_exec and allow_prepared_exec are both off: nothing could be started",
        ),
    ],
)
def test_what_is_said_of_mistakes(argv: list[str], said: str) -> None:
    """Lost: knowing what to write instead."""
    assert problems(argv)[0].startswith(said)


@pytest.mark.parametrize(
    "text", ["a = ", 'a = "\xff"', "\xff\xfe", "a = 1\na = 2", pytest.param("a = " + "[" * 5000, id="deep")]
)
def test_a_file_that_is_no_toml(tmp_path: Path, text: str) -> None:
    """Lost: knowing which file, and where in it."""
    path = tmp_path / "c.toml"
    path.write_bytes(text.encode("latin-1"))
    assert problems(["--config", str(path)])[0].startswith(f"{path}: ")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([option.name for option in OPTIONS]) | st.text(max_size=20), VALUES, max_size=8))
def test_every_key_is_taken_or_complained_of(table: dict[str, Any]) -> None:
    """Lost: a setting that somebody wrote down and nobody reads."""
    found = settings_of_table(table, "x")
    assert len(found.given) + len(found.problems) == len(table)
    assert all(isinstance(text, str) for texts in found.given.values() for text in texts)


def test_every_option_has_its_names() -> None:
    """Lost: a setting that only some sources can have; an alias that is none."""
    names = [option.name for option in OPTIONS]
    assert sorted(names) == sorted(Config.__struct_fields__)
    assert {alias.option for alias in ALIASES} <= set(names)
    assert flag_of("session_ttl") == "--session-ttl" and variable_of("session_ttl") == "EXEC_SERVER_SESSION_TTL"


def test_the_document_lists_what_can_be_reloaded_and_the_other_names() -> None:
    """Lost: which changes need a restart."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    listed = text.partition("<!-- live -->\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == {option.name for option in OPTIONS if option.live}
    assert re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE) == [(e.name, e.option) for e in ALIASES]


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    argv = (sys.executable, "-m", "exec_server", *argv)
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)


def test_show_prints_a_file_that_says_the_same(file: Path, tmp_path: Path) -> None:
    """Lost: what a server runs with, and where each setting comes from."""
    shown = run("config", "show", "--config", str(file), "--session-ttl", "9")
    assert shown.returncode == 0, shown.stderr
    again = tmp_path / "again.toml"
    again.write_text(shown.stdout)
    assert set(tomllib.loads(shown.stdout)) == {option.name for option in OPTIONS} - {"config"}
    assert "session_ttl = 9.0  # --session-ttl\n" in shown.stdout
    assert 'record = ""  # default\n' in shown.stdout
    expected = load(["--config", str(file), "--session-ttl", "9"], {})
    assert run("config", "show", "--config", str(again)).returncode == 0
    found = load(["--config", str(again)], {})
    assert {name: getattr(found, name) for name in Config.__struct_fields__ if name != "config"} == {
        name: getattr(expected, name) for name in Config.__struct_fields__ if name != "config"
    }


def test_check_tells_before_a_restart_does(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost: a server that runs, to a restart with a mistake in its settings."""
    monkeypatch.setenv("EXEC_SERVER_SERVICE_HOST", "10.0.0.1")
    wrong = run("config", "check", "--config", str(file))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.splitlines() == [
        "failed to read websocket auth secret /etc/token: No such file or directory",
        "note: the environment variable EXEC_SERVER_SERVICE_HOST is none of a setting",
    ]
    right = run("config", "check", "--listen", "ws://127.0.0.1:0")
    assert (right.returncode, right.stdout) == (0, "ok\n")
    assert run("config", "check", "--listen", "ws://0.0.0.0:0").returncode == 1


async def test_a_server_may_take_one_mode_only() -> None:
    """Lost: that nothing runs here whose caller has not applied its policy."""
    with program("--allow-direct-exec", "no") as server:
        async with client_session(server.url) as client:
            for params in ({}, {"mode": "direct"}):
                error = await expect_error(client.start("p", "/bin/true", **params))
                assert (error.code, error.data) == (-32600, {"kind": "modeNotAllowed"})
            assert await (await client.start("p", "/bin/true", mode="prepared")).closed()
    with program("--allow-prepared-exec", "no") as server:
        async with client_session(server.url) as client:
            error = await expect_error(client.start("p", "/bin/true", mode="prepared"))
            assert error.data == {"kind": "modeNotAllowed"}
            assert await (await client.start("p", "/bin/true")).closed()


async def test_a_session_has_a_limit_of_processes() -> None:
    """Lost: the machine, to one session; and the session, if those that are over counted too."""
    with program("--max-processes-per-connection", "2") as server:
        async with client_session(server.url) as client, client_session(server.url) as other:
            await expect_error(client.start("none", "/no/such/program"))
            first = await client.start("first", "/bin/sleep", "1000")
            await client.start("second", "/bin/sleep", "1000")
            error = await expect_error(client.start("third", "/bin/true"))
            limit = {"kind": "limitReached", "limit": "max_processes_per_session", "value": 2}
            assert (error.code, error.data) == (-32603, limit)
            assert (await other.run("p", "/bin/true")).code == 0
            await first.terminate()
            await first.closed()
            assert (await client.run("third", "/bin/true")).code == 0
