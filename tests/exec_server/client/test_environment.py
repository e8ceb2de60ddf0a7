"""One interface for this machine and others, and how one of them is chosen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from exec_server import Environment
from exec_server.client.environments_file import EnvironmentsFileError, ServerTarget, chosen_target
from tests.support.program import ROOT, Program

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of environments of this test; there is none at first."""
    path = tmp_path / "environments.toml"
    monkeypatch.setenv("EXEC_SERVER_ENVIRONMENTS", str(path))
    monkeypatch.delenv("EXEC_SERVER_URL", raising=False)
    return path


@pytest.fixture(params=["local", "remote"])
def url(request: pytest.FixtureRequest, server: Program) -> str:
    return "local" if request.param == "local" else server.url


async def test_both_have_the_same_interface(url: str) -> None:
    """Lost: programs that need not know where they run things."""
    async with Environment.create(url) as environment:
        assert environment.info.platform_os == "linux"
        done = await environment.processes.run(["echo", "hi"])
        assert done.stdout == b"hi\n"
        process = await environment.processes.start(["cat"], stdin=subprocess.PIPE)
        assert await process.communicate(b"x") == (b"x", b"")


async def test_the_variable_chooses(server: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXEC_SERVER_URL", server.url)
    async with Environment.create() as environment:
        ours = await environment.processes.run(["sh", "-c", "echo $PPID"])
        assert int(ours.stdout) == server.pid


async def test_without_a_choice_it_is_local() -> None:
    async with Environment.create() as environment:
        assert (await environment.processes.run(["true"])).returncode == 0


async def test_a_named_one_is_a_url_or_a_command(no_settings: Path, server: Program) -> None:
    command = [sys.executable, "-m", "exec_server"]
    no_settings.write_text(
        f'default = "far"\n[environments.far]\nurl = "{server.url}"\n[environments.box]\ncommand = {command!r}\n'
    )
    for name, is_server in (("far", True), (None, True), ("box", False)):
        async with Environment.create(name=name) as environment:
            parent = await environment.processes.run(["sh", "-c", "echo $PPID"], cwd=ROOT)
            assert (int(parent.stdout) == server.pid) == is_server
    with pytest.raises(EnvironmentsFileError, match="no environment 'near'; known: box, far"):
        async with Environment.create(name="near"):
            pass


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("default = 1", "Expected `str | null`"),
        ("[environments.a]\nurk = 'ws://x'", "urk"),
        ("[environments.a]\nurl = 'ws://x'\ncommand = ['x']", "exclude each other"),
        ("[environments.a]\ncommand = []", "`command` is empty"),
        ("default", "TOML|Expected"),
        ("default = 'a'", "no environment 'a'; known: none"),
    ],
)
def test_a_wrong_file_is_told(no_settings: Path, text: str, fault: str) -> None:
    """Lost: the place of a typing error; worse, a command that runs here instead of there."""
    no_settings.write_text(text)
    with pytest.raises(EnvironmentsFileError, match=fault) as error:
        chosen_target(None)
    assert str(no_settings) in str(error.value)


def test_the_token_of_the_variable_comes_from_a_file() -> None:
    """Secrets are in no variable."""
    environ = {"EXEC_SERVER_URL": "ws://x", "EXEC_SERVER_TOKEN_FILE": "/t"}
    assert chosen_target(None, environ) == ServerTarget(url="ws://x", token_file="/t")
