"""The MCP Inspector, without its window: both its packages list our tools, and call each of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.exec_server.mcp.clients.checks import check
from tests.support.program import ROOT

TIMEOUT_S = 60
UNKNOWN = "unknown process id 1000"
"""Each call of the Inspector is a session of its own, so there is no process to be named."""


def calls(work: Path) -> dict[str, tuple[list[str], str]]:
    """The arguments for each tool, and what its answer must have."""
    file, picture = work / "file.txt", work / "dot.png"
    from PIL import Image

    Image.new("RGB", (8, 8)).save(picture)
    return {
        "exec_command": (["cmd=echo it runs", "tty=true", "yield_time_ms=5000"], "it runs"),
        "write_stdin": (["process_id=1000", "chars=x"], UNKNOWN),
        "read_screen": (["process_id=1000"], UNKNOWN),
        "terminate_process": (["process_id=1000"], UNKNOWN),
        "list_processes": ([], "No processes."),
        "write_file": ([f"path={file}", "content=some text"], "Created"),
        "read_file": ([f"path={file}", "max_lines=5"], "some text"),
        "edit_file": ([f"path={file}", "old_text=some", "new_text=other"], "+other text"),
        "list_directory": ([f"path={work}"], "file.txt"),
        "search_files": (["pattern=other", f"path={work}"], "file.txt:1:other text"),
        "view_image": ([f"path={picture}"], "8 by 8 pixels"),
    }


def run(node: Path, modules: Path, work: Path) -> list[str]:
    """Raises Wrong."""
    old = modules / "@modelcontextprotocol" / "inspector-cli" / "build"
    new = modules / "@modelcontextprotocol" / "inspector"
    # The old package looks for its own package.json from the folder that it is run in.
    programs = {
        "inspector-cli": ([node, old / "index.js"], old),
        "inspector --cli": ([node, new / "clients" / "launcher" / "build" / "index.js", "--cli"], new),
    }
    told = []
    for name, (program, folder) in programs.items():
        ours = work / name.split()[0]
        ours.mkdir()
        listed = {tool["name"] for tool in asked(program, folder, "--method", "tools/list")["tools"]}
        wanted = calls(ours)
        check(listed == set(wanted), f"{name} lists {sorted(listed)}")
        for tool, (arguments, text) in wanted.items():
            options = [option for each in arguments for option in ("--tool-arg", each)]
            result = asked(program, folder, "--method", "tools/call", "--tool-name", tool, *options)
            said = json.dumps(result, ensure_ascii=False)
            check(json.dumps(text)[1:-1] in said, f"{name} {tool}: {said[:600]}")
            check(result.get("isError", False) == (text == UNKNOWN), f"{name} {tool}: {said[:600]}")
        told.append(f"{name}: {len(wanted)} tools listed and called")
    return told


def asked(program: list[Path | str], folder: Path, *arguments: str) -> dict[str, Any]:
    """What the Inspector prints. Raises Wrong."""
    server = [sys.executable, "-m", "exec_server", "mcp", "--workspace", str(ROOT)]
    command = [*program, *server, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
    try:
        found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        check(False, f"{arguments}: {done.stdout[-400:]} {done.stderr[-400:]}")
    return found
