"""The public surface: what README, guide and examples promise is in `exec_server.__all__`, or in a public module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import exec_server
from tests.support.program import ROOT

PROMISING = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("guide", "harness", "mcp", "web"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PUBLIC_MODULES = {
    "exec_server",
    "exec_server.unified_exec",
    "harness",
    "protocol.environment",
    "protocol.errors",
    "protocol.filesystem",
    "protocol.process",
    "protocol.sandbox",
}
PACKAGES = {"actors", "exec_server", "harness", "protocol", "transport"}


def code_in(path: Path) -> Iterator[str]:
    text = path.read_text()
    if path.suffix == ".py":
        yield text
    else:
        yield from re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def promised(code: str) -> Iterator[tuple[str, str]]:
    """The modules of ours that a program uses, and the names that it takes from them."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in PACKAGES:
            yield node.value.id, node.attr


@pytest.mark.parametrize("path", [*PROMISING, *EXAMPLES], ids=lambda path: path.name)
def test_programs_use_what_is_public(path: Path) -> None:
    """Lost: programs that follow the documents, at the next version."""
    for code in code_in(path):
        for module, name in promised(code):
            assert module in PUBLIC_MODULES, f"{module} is not public"
            assert name in getattr(import_module(module), "__all__", [name]), f"{module}.{name} is not public"
            assert hasattr(import_module(module), name)


@pytest.mark.parametrize("path", PROMISING, ids=lambda path: path.name)
def test_names_in_the_text_are_public(path: Path) -> None:
    named = set(re.findall(r"`exec_server\.(\w+)", path.read_text())) - {"__all__", "unified_exec"}
    assert named <= set(exec_server.__all__)


def test_the_guide_names_the_public_modules() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text()
    assert {module for module in PUBLIC_MODULES if module.startswith("protocol.")} <= set(
        re.findall(r"`(protocol\.\w+)`", guide)
    )


def test_whoever_uses_an_internal_name_is_found() -> None:
    """That the tests above can fail."""
    code = "import exec_server\nfrom transport.listen import serve_websocket\nexec_server.no_such_name()"
    assert set(promised(code)) == {("transport.listen", "serve_websocket"), ("exec_server", "no_such_name")}


def test_what_is_public_is_documented() -> None:
    """Lost: what a name does, for who finds it in `__all__`."""
    for name in exec_server.__all__:
        assert (getattr(exec_server, name).__doc__ or "").strip(), name


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_packages_are_typed(package: str) -> None:
    """Lost: types, for whoever checks a program that uses them."""
    assert (ROOT / package / "py.typed").exists()
