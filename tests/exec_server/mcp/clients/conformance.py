"""The conformance tests of the protocol: what applies to a server like ours must pass, the rest is named here."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

from tests.exec_server.mcp.clients.checks import check
from tests.exec_server.mcp.test_http import http_program

TIMEOUT_S = 300
_FIXTURES = "calls tools of the test server, such as test_simple_text"
_PROMPTS = "we have no prompts"
_RESOURCES = "reads resources of the test server (test://…)"
_ASKS = "we ask the client for nothing (sampling, elicitation)"
NOT_APPLICABLE = {
    "completion-complete": "completes the arguments of prompts and templates; we have nothing to complete",
    "tools-call-simple-text": _FIXTURES,
    "tools-call-image": _FIXTURES,
    "tools-call-audio": _FIXTURES,
    "tools-call-embedded-resource": _FIXTURES,
    "tools-call-mixed-content": _FIXTURES,
    "tools-call-with-logging": _FIXTURES,
    "tools-call-error": _FIXTURES,
    "tools-call-with-progress": _FIXTURES,
    "tools-call-sampling": _ASKS,
    "tools-call-elicitation": _ASKS,
    "elicitation-sep1034-defaults": _ASKS,
    "elicitation-sep1330-enums": _ASKS,
    "json-schema-2020-12": _FIXTURES,
    "resources-read-text": _RESOURCES,
    "resources-read-binary": _RESOURCES,
    "resources-templates-read": _RESOURCES,
    "resources-subscribe": _RESOURCES,
    "resources-unsubscribe": _RESOURCES,
    "prompts-list": _PROMPTS,
    "prompts-get-simple": _PROMPTS,
    "prompts-get-with-args": _PROMPTS,
    "prompts-get-embedded-resource": _PROMPTS,
    "prompts-get-with-image": _PROMPTS,
}
"""Scenarios that no server like ours can pass, and why. What they are about is tried with our own tools elsewhere."""
APPLICABLE = {
    "server-initialize",
    "logging-set-level",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "server-sse-polling",
    "resources-list",
    "dns-rebinding-protection",
}
_LINE = re.compile(r"^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed", re.MULTILINE)


def run(node: Path, modules: Path, work: Path) -> list[str]:
    """Raises Wrong."""
    program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # One scenario sends the origin of a page on this machine, which by default may not come in either.
    origins = [f"http://{name}:{port}" for name in ("localhost", "127.0.0.1")]
    flags = [flag for origin in origins for flag in ("--allow-origin", origin)]
    with http_program(*flags, port=port) as url:
        command = [node, program, "server", "--url", url, "--suite", "all"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=TIMEOUT_S)
    found = {name: (mark == "✓", int(passed)) for mark, name, passed, _ in _LINE.findall(done.stdout)}
    check(found, f"no summary: {done.stdout[-600:]} {done.stderr[-600:]}")
    failed = sorted(name for name, (passed, _) in found.items() if not passed)
    passed = {name for name, (good, _) in found.items() if good}
    check(not set(failed) - set(NOT_APPLICABLE), f"failed: {sorted(set(failed) - set(NOT_APPLICABLE))}")
    check(passed >= APPLICABLE, f"did not pass: {sorted(APPLICABLE - passed)}")
    check(passed <= APPLICABLE, f"passes now, and should be listed: {sorted(passed - APPLICABLE)}")
    reasons: dict[str, list[str]] = {}
    for name in failed:
        reasons.setdefault(NOT_APPLICABLE[name], []).append(name)
    left_out = [f"not applicable, {reason}: {', '.join(names)}" for reason, names in reasons.items()]
    return [f"passed: {', '.join(sorted(passed))}", *left_out]
