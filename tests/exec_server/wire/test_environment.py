"""environmentConfig/read and capabilities/discoverV2: what a client learns of the machine's configuration."""

from __future__ import annotations

import os
import tomllib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.services.executor_config import MAX_CONFIG_BYTES, cut
from tests.support.client import Client, connected, expect_error, session
from tests.support.program import Program, program

CONFIG = """
model = "secret"
[mcp_servers.a]
command = "b"
args = ["x", "y"]
[mcp_servers."with.dot"]
url = "http://h/"
[other]
since = 2026-01-02T03:04:05Z
deep.er = 1.5
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def at_home(home: Path) -> Iterator[Program]:
    """A server whose user has this home folder."""
    environ = {name: value for name, value in os.environ.items() if name != "CODEX_HOME"}
    with program(env={**environ, "HOME": str(home)}) as running:
        yield running


@pytest.fixture
async def client(at_home: Program, anyio_backend: object) -> AsyncIterator[Client]:
    async with session(at_home.url) as client:
        yield client


@pytest.fixture
def config(home: Path) -> Iterator[Path]:
    """Where the configuration is to be; nothing is there."""
    path = home / ".codex" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    yield path
    if path.is_symlink() or path.exists():
        path.unlink()


async def read(client: Client, *paths: list[str], requirements: Any = ()) -> dict[str, Any]:
    params = {"cwd": "file:///", "configPaths": paths, "requirementsPaths": requirements}
    return await client.call("environmentConfig/read", **params)


@pytest.mark.anyio
async def test_only_what_is_asked_for_is_told(client: Client, config: Path, home: Path) -> None:
    """The client configures its tools with it; what it does not ask for may be secret."""
    nothing = await read(client, ["mcp_servers"], requirements=[["mcp_servers"]])
    assert nothing == {
        "userHomeDir": f"file://{home}",
        "codexHomeDir": f"file://{home}/.codex",
        "hostname": os.uname().nodename,
        "config": {"layers": [], "cloudInsertionIndex": 0},
        "requirements": {"layers": [], "cloudInsertionIndex": 0},
    }
    config.write_text(CONFIG)
    (layer,) = (await read(client, ["mcp_servers"], ["other", "since"], ["no"], ["model", "no"]))["config"]["layers"]
    assert (layer["source"], layer["baseDir"]) == (f"user ({config})", f"file://{config.parent}")
    asked, whole = tomllib.loads(layer["toml"]), tomllib.loads(CONFIG)
    assert asked == {"mcp_servers": whole["mcp_servers"], "other": {"since": whole["other"]["since"]}}
    for paths in (["no"], ["model", "no"], ["mcp_servers", "none", "x"]):
        assert (await read(client, paths))["config"]["layers"] == []
    assert (await read(client, requirements=[["model"]]))["config"]["layers"] == []


@pytest.mark.anyio
async def test_the_text_is_upstreams(client: Client, config: Path) -> None:
    config.write_text('[mcp_servers.a]\ncommand = "b"\n')
    (layer,) = (await read(client, ["mcp_servers"]))["config"]["layers"]
    assert layer["toml"] == '[mcp_servers.a]\ncommand = "b"\n'


BROKEN = {
    "no-toml": (b"a = = 1", ":1:5: "),
    "cut-off": (b"a = [1,", ": "),
    "no-utf8": (b"a = '\xff'", ": invalid UTF-8 at byte 5"),
    "too-large": (b"#" * (MAX_CONFIG_BYTES + 1), f": more than {MAX_CONFIG_BYTES} bytes"),
    "too-deep": (b"a = " + b"[" * 10_000 + b"]" * 10_000, ": nested too deep"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_configuration_is_an_error(client: Client, config: Path, name: str) -> None:
    """Silence would let the client run without the tools that the machine's owner meant it to have."""
    data, text = BROKEN[name]
    config.write_bytes(data)
    error = await expect_error(read(client, ["a"]))
    assert error.code == -32603
    assert error.data == {"kind": "invalidConfig", "path": str(config)}
    assert error.message.startswith(f"failed to load executor-local config: {config}{text}")


@pytest.mark.anyio
async def test_what_is_no_file(client: Client, config: Path) -> None:
    """A FIFO would be waited for until somebody writes to it."""
    os.mkfifo(config)
    assert "not a regular file" in (await expect_error(read(client, ["a"]))).message
    config.unlink()
    config.symlink_to(config)
    assert "(os error 40)" in (await expect_error(read(client, ["a"]))).message


@pytest.mark.anyio
async def test_params(client: Client, at_home: Program) -> None:
    error = await expect_error(read(client))
    assert (error.code, error.message) == (-32602, "at least one config or requirements path is required")
    error = await expect_error(client.call("environmentConfig/read", cwd="file:///"))
    assert (error.code, error.message) == (-32602, "missing field `configPaths`")
    params = {"configPaths": [["a"]], "requirementsPaths": []}
    error = await expect_error(client.call("environmentConfig/read", cwd="relative", **params))
    assert error.code == -32602
    async with connected(at_home.url) as stranger:
        error = await expect_error(read(stranger, ["a"]))
        assert error.message == "client must call initialize before using environment config methods"
        error = await expect_error(stranger.call("capabilities/discoverV2", cwd="file:///"))
        assert error.message == "client must call initialize before using capability discovery methods"


@pytest.mark.anyio
async def test_the_folder_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("a = 1\n")
    with program(env={**os.environ, "CODEX_HOME": str(tmp_path)}) as server:
        async with session(server.url) as client:
            result = await read(client, ["a"])
            assert result["codexHomeDir"] == f"file://{tmp_path}"
            assert result["config"]["layers"][0]["toml"] == "a = 1\n"
            capabilities = (await client.call("environment/info"))["capabilities"]
            assert (capabilities["environmentConfigRead"], capabilities["capabilityDiscoveryV2"]) == (True, True)
            found = await client.call("capabilities/discoverV2", cwd="file:///", sandbox=None)
            assert found == {"plugins": [], "skills": [], "warnings": []}


def test_cut() -> None:
    """Paths may overlap, in any order; what is in the document is never changed."""
    config = {"a": {"b": {"c": 1, "d": 2}, "e": 3}, "f": [1]}
    assert cut(config, [["a", "b", "c"], ["a", "e"]]) == {"a": {"b": {"c": 1}, "e": 3}}
    assert cut(config, [["a", "b", "c"], ["a"]]) == cut(config, [["a"], ["a", "b", "c"]]) == {"a": config["a"]}
    assert cut(config, [[]]) == config
    assert cut(config, [["f", "x"], ["a", "e", "x"], ["x"]]) == {}
    assert config == {"a": {"b": {"c": 1, "d": 2}, "e": 3}, "f": [1]}
