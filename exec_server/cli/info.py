"""`exec-server info`: what is at the other end."""

from __future__ import annotations

import json
from typing import Any

from exec_server.cli.exit_status import outcome, put
from exec_server.cli.target import Json, TokenFile, Url, connected, target_of
from exec_server.client.client import ExecServerClient
from exec_server.client.environments_file import ServerTarget
from exec_server.printable import printable
from protocol.paths import native_path


def info(*, url: Url = None, token_file: TokenFile = None, json: Json = False) -> int:
    """Say what the server is, and the machine that it runs on."""
    return outcome(lambda: _info(target_of(url, token_file), json))


async def _info(target: ServerTarget, as_json: bool) -> int:
    async with connected(target) as client:
        facts = {"url": target.url or "local", **facts_of(client)}
    if as_json:
        put(json.dumps(facts, indent=2) + "\n")
        return 0
    width = max(map(len, facts))
    texts = {name: " ".join(value) if isinstance(value, list) else str(value) for name, value in facts.items()}
    put("".join(f"{name:<{width}}  {printable(text)}\n" for name, text in texts.items()))
    return 0


def facts_of(client: ExecServerClient) -> dict[str, Any]:
    """By the names of docs/protocol.md."""
    found = client.environment_info
    return {
        "executorVersion": found.executor_version,
        "platformOs": found.platform_os,
        "shell": found.shell.path,
        "cwd": native_path(found.cwd),
        "userHomeDir": native_path(found.user_home_dir),
        "tempDir": native_path(found.temp_dir),
        "extensions": client.extensions,
    }
