"""capabilities/discoverV2: the plugins and skills that are installed for the server's user (harness-spec 4.5, 5.3)."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.services.capabilities import MAX_DEPTH, MAX_WARNINGS, version_key
from tests.support.client import Client, expect_error, session
from tests.support.managed import managed
from tests.support.program import program

pytestmark = pytest.mark.anyio
Home = Path


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[tuple[Client, Home]]:
    """A client of a server whose user has this home."""
    with program(env={**os.environ, "HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "codex")}) as server:
        async with session(server.url) as client:
            yield client, tmp_path


async def discovered(client: Client, **params: Any) -> dict[str, Any]:
    result: dict[str, Any] = await client.call("capabilities/discoverV2", cwd="file:///", **params)
    return result


def skill(folder: Path, front: str = "description: d") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\n{front}\n---\nBody.\n")
    return folder


def plugin(home: Home, name: str, version: str, **manifest: Any) -> Path:
    folder = home / "codex" / "plugins" / "cache" / "team" / name / version
    (folder / ".codex-plugin").mkdir(parents=True)
    (folder / ".codex-plugin" / "plugin.json").write_text(json.dumps({"name": name, **manifest}))
    return folder


async def test_nothing_is_installed(at: tuple[Client, Home]) -> None:
    client, _ = at
    assert (await client.call("environment/info"))["capabilities"]["capabilityDiscoveryV2"] is True
    assert await discovered(client) == {"plugins": [], "skills": [], "warnings": []}


async def test_a_plugin_as_it_is_told(at: tuple[Client, Home]) -> None:
    """Lost: what a client that trusts this answer would have found by itself."""
    client, home = at
    folder = plugin(home, "sample", "0.1.0", mcpServers="./servers.json", interface={"displayName": " Sample "})
    (folder / "servers.json").write_text('{"mcpServers": {}}')
    (folder / ".app.json").write_text('{"apps": {}}')
    skill(folder / "skills" / "search", "name: search\ndescription: Search.\nmetadata:\n  short-description: s")
    uri = f"file://{folder}"
    assert await discovered(client) == {
        "plugins": [
            {
                "id": "sample@team",
                "displayName": "Sample",
                "remotePluginId": None,
                "version": "0.1.0",
                "root": uri,
                "files": {
                    "manifest": {
                        "path": f"{uri}/.codex-plugin/plugin.json",
                        "contents": (folder / ".codex-plugin" / "plugin.json").read_text(),
                    },
                    "mcpConfig": {"path": f"{uri}/servers.json", "contents": '{"mcpServers": {}}'},
                    "appsConfig": {"path": f"{uri}/.app.json", "contents": '{"apps": {}}'},
                },
                "skills": [
                    {
                        "name": "sample:search",
                        "description": "Search.",
                        "shortDescription": "s",
                        "path": f"{uri}/skills/search/SKILL.md",
                        "dependencies": None,
                        "policy": None,
                    }
                ],
            }
        ],
        "skills": [],
        "warnings": [],
    }


async def test_skills_of_the_user(at: tuple[Client, Home]) -> None:
    """4.5 and 5.3: order, depth, hidden folders, links, namespaces."""
    client, home = at
    own = home / ".agents" / "skills"
    skill(home / "codex" / "skills" / "legacy")
    skill(own / "b" / "x")
    deep = own.joinpath(*["d"] * MAX_DEPTH)
    skill(deep)
    skill(deep / "deeper")
    skill(own / ".hidden")
    (own / "linked").symlink_to(skill(home / "elsewhere"))
    (own / "again").symlink_to("linked")
    (own / "loop").symlink_to(".")
    skill(own / "nested" / "skills" / "inner")
    (own / "nested" / ".codex-plugin").mkdir()
    (own / "nested" / ".codex-plugin" / "plugin.json").write_text('{"name": "nest"}')
    found = await discovered(client)
    assert [each["name"] for each in found["skills"]] == ["legacy", "again", "x", "d", "nest:inner"]
    assert found["skills"][0]["discoveryRoot"] == {
        "id": "codex-home-skills",
        "path": f"file://{home}/codex/skills",
    }
    assert found["skills"][-1]["discoveryRoot"]["id"] == "user-agent-skills"
    assert found["warnings"] == []


async def test_settings_of_a_skill(at: tuple[Client, Home]) -> None:
    client, home = at
    folder = skill(home / ".agents" / "skills" / "a")
    (folder / "agents").mkdir()
    (folder / "agents" / "openai.yaml").write_text(
        "interface:\n  display_name: A\npolicy:\n  allow_implicit_invocation: false\n"
        "dependencies:\n  tools:\n    - {type: mcp, value: s, url: 'https://x'}\n"
    )
    [found] = (await discovered(client))["skills"]
    assert found["policy"] == {"allowImplicitInvocation": False, "products": []}
    tool = {"description": None, "transport": None, "command": None, "url": "https://x", "oauthCallbackPort": None}
    assert found["dependencies"] == {"tools": [{"type": "mcp", "value": "s", **tool}]}
    (folder / "agents" / "openai.yaml").write_text("policy: [")
    found = await discovered(client)
    assert found["skills"][0]["policy"] is None and len(found["warnings"]) == 1


async def test_what_cannot_be_used_is_told(at: tuple[Client, Home], tmp_path: Path) -> None:
    """Lost: everything, for one bad file; or the secrets of a server whose plugins have links."""
    client, home = at
    own = home / ".agents" / "skills"
    skill(own / "good")
    skill(own / "bad", "no: [yaml")
    (own / "fifo").mkdir()
    os.mkfifo(own / "fifo" / "SKILL.md")
    (tmp_path / "secret").write_text("---\ndescription: secret\n---\n")
    (own / "out").mkdir()
    (own / "out" / "SKILL.md").symlink_to(tmp_path / "secret")
    folder = plugin(home, "p", "1.0.0", mcpServers="./out.json", skills=["./linked/", "../x"])
    (folder / "out.json").symlink_to(tmp_path / "secret")
    (folder / "linked").symlink_to(own)
    (plugin(home, "deep", "1.0.0") / ".codex-plugin" / "plugin.json").write_text("[" * 100_000)
    found = await discovered(client)
    assert [each["name"] for each in found["skills"]] == ["good"]
    [told] = found["plugins"]
    assert (told["files"]["mcpConfig"], told["skills"]) == (None, [])
    assert "secret" not in json.dumps(found["plugins"]) and len(found["warnings"]) == 5


async def test_the_version_that_counts(at: tuple[Client, Home]) -> None:
    client, home = at
    for version in ("0.9.0", "0.10.0", "0.10.0-rc.1"):
        plugin(home, "a", version)
    for version in ("9.0.0", "local"):
        plugin(home, "b", version)
    told = (await discovered(client))["plugins"]
    assert [(each["id"], each["version"]) for each in told] == [("a@team", "0.10.0"), ("b@team", "local")]


def test_versions_are_compared_as_semver_has_it() -> None:
    """semver.org, 11."""
    order = ("x", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0", "local")
    assert sorted(set(order), key=version_key) == list(order)


async def test_many_skills_have_an_end(at: tuple[Client, Home]) -> None:
    """Lost: a client that is sent more than it takes, by whoever fills a folder."""
    client, home = at
    for number in range(100):
        skill(home / ".agents" / "skills" / f"s{number:03}", "bad: [")
        skill(home / "codex" / "skills" / f"s{number:03}", f"description: {'d' * 1000}")
    found = await discovered(client)
    assert len(found["skills"]) == 100 and len(found["warnings"]) == MAX_WARNINGS


async def test_params(at: tuple[Client, Home]) -> None:
    """In a sandbox that has to be enforced nothing is read."""
    client, home = at
    skill(home / ".agents" / "skills" / "a")
    assert (await expect_error(client.call("capabilities/discoverV2", cwd="relative"))).code == -32602
    sandboxed = await discovered(client, sandbox=managed(home))
    assert sandboxed["skills"] == [] and "sandbox" in sandboxed["warnings"][0]
