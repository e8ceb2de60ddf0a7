"""What `exec-harness` makes, given to the Codex CLI: it has to list and install it; and its own server and ours have to
tell the same of what is installed. The exit status is 0 if it is so, 1 if not, 2 if the client cannot be had.

    python -m tests.real_client.plugins
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real_client.failure import Failure, check
from tests.real_client.install import NotInstalled, codex
from tests.support.client import session
from tests.support.program import launched, program

LIMIT_S = 60.0
NOWHERE = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https", "all")}
"""It may want to look for other marketplaces; there is no way out."""


def main() -> int:
    try:
        client = codex()
    except NotInstalled as why:
        print(why, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = asyncio.run(_checked(client, Path(folder)))
        except (Failure, AssertionError) as failure:
            print(f"FAIL {failure}")
            return 1
    print(*told, sep="\n")
    return 0


async def _checked(client: Path, folder: Path) -> list[str]:
    """What was seen, a line each. Raises Failure."""
    home, repository = folder / "home", folder / "repository"
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home / "codex"), **NOWHERE}
    (home / "codex").mkdir(parents=True)
    repository.mkdir()

    def call(*words: str) -> str:
        ran = subprocess.run(words, cwd=repository, env=environ, capture_output=True, text=True, timeout=LIMIT_S)
        check(ran.returncode == 0, f"{' '.join(words[1:])}: status {ran.returncode}: {ran.stderr[-600:]}")
        return ran.stdout

    def harness(*words: str) -> str:
        return call(sys.executable, "-c", "from harness.cli import main; main()", *words)

    environ["PYTHONPATH"] = os.getcwd()
    harness("plugin", "create", "My Plugin", "--with-skills", "--with-mcp", "--with-apps", "--with-marketplace")
    harness("plugin", "create", "bare", "--with-marketplace")
    skill = repository / "plugins" / "my-plugin" / "skills" / "search"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: search\ndescription: Search the code.\n---\nBody.\n")
    harness("plugin", "validate", "plugins/my-plugin")

    call(str(client), "plugin", "marketplace", "add", str(repository))
    offered = json.loads(call(str(client), "plugin", "list", "--available", "--json"))["available"]
    names = [(each["pluginId"], each["version"], each["installPolicy"], each["authPolicy"]) for each in offered]
    expected = [(f"{name}@personal", "0.1.0", "AVAILABLE", "ON_INSTALL") for name in ("my-plugin", "bare")]
    check(sorted(names) == sorted(expected), f"plugin list: {names}")
    for name in ("my-plugin", "bare"):
        call(str(client), "plugin", "add", f"{name}@personal")
    installed = json.loads(call(str(client), "plugin", "list", "--json"))["installed"]
    check(len(installed) == 2 and all(each["enabled"] for each in installed), f"plugin list: {installed}")

    own = home / ".agents" / "skills" / "mine"
    (own / "agents").mkdir(parents=True)
    (own / "SKILL.md").write_text("---\ndescription: Mine.\nmetadata:\n  short-description: m\n---\n")
    (own / "agents" / "openai.yaml").write_text("policy:\n  allow_implicit_invocation: false\n")
    with _upstream(client, environ) as url:
        theirs = await _inventory(url, folder)
    with program(env={**os.environ, **environ}) as server:
        ours = await _inventory(server.url, folder)
    check(ours == theirs, f"capabilities/discoverV2:\n{json.dumps(ours)}\n{json.dumps(theirs)}")
    skills = [each["name"] for plugin in theirs["plugins"] for each in plugin["skills"]]
    check(skills == ["my-plugin:search"] and len(theirs["skills"]) == 1, f"skills: {theirs}")
    return [
        f"PASS it offers {', '.join(name for name, *_ in names)}, and installs them",
        f"PASS its server and ours tell the same of them and of the skills {', '.join([*skills, 'mine'])}",
    ]


@contextlib.contextmanager
def _upstream(client: Path, environ: dict[str, str]) -> Iterator[str]:
    """The client's own server."""
    argv = [str(client), "exec-server", "--listen", "ws://127.0.0.1:0"]
    with launched(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        check(url.startswith("ws://127.0.0.1:"), f"exec-server says {url!r}")
        yield url
        process.terminate()


async def _inventory(url: str, cwd: Path) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT_S), session(url) as client:
        result: dict[str, Any] = await client.call("capabilities/discoverV2", cwd=cwd.as_uri())
        return result


if __name__ == "__main__":
    sys.exit(main())
