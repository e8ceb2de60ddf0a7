"""New plugins: what one consists of (`plan`, pure), and how it gets onto the disk with nothing left half-done."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from harness.disk import replace_file, why
from harness.errors import MarketplaceError, PluginError
from harness.plugins.entries import PERSONAL, NewEntry, NewMarketplace, add_entry, check_entry
from harness.plugins.marketplace import PLACE, Authentication, Installation
from harness.plugins.names import normalised, shown_name
from protocol.plugin_files import MANIFESTS

DEFAULT_FOLDER = Path("plugins")
DEVELOPER = "Local developer"
MCP_FILE = ".mcp.json"
APPS_FILE = ".app.json"
_STUBS: dict[str, Any] = {MCP_FILE: {"mcpServers": {}}, APPS_FILE: {"apps": {}}}


class Parts(Struct, frozen=True, kw_only=True):
    """What a new plugin has beside its manifest. `placeholders`: a manifest with every member there is, to be filled
    in, instead of one that loads as it is.
    """

    skills: bool = False
    hooks: bool = False
    scripts: bool = False
    assets: bool = False
    mcp: bool = False
    apps: bool = False
    placeholders: bool = False


MANIFEST_ONLY = Parts()


class Plan(Struct, frozen=True):
    """A plugin to be made: its folders, and its files with their text, by paths relative to the plugin's folder."""

    name: str
    folders: tuple[str, ...]
    files: dict[str, str]

    @property
    def manifest(self) -> str:
        """The path of the manifest."""
        return MANIFESTS[0]


class Created(NamedTuple):
    """What was made: absolute paths, and what the user should know of the name."""

    name: str
    folder: Path
    manifest: Path
    marketplace: Path | None
    note: str | None


class Policy(Struct, frozen=True, kw_only=True):
    """The rest of the entry in a marketplace, and which file that is; None for the one in the current folder."""

    file: Path | None = None
    installation: Installation = Installation.AVAILABLE
    authentication: Authentication = Authentication.ON_INSTALL
    category: str = "Productivity"


def plan(name: str, parts: Parts = MANIFEST_ONLY, category: str = "Productivity") -> Plan:
    """The plugin of a name that a person typed. Pure. Raises PluginError for a name that leaves nothing of it."""
    name = normalised(name)
    chosen = {"skills": parts.skills, "hooks": parts.hooks, "scripts": parts.scripts, "assets": parts.assets}
    stubs = {MCP_FILE: parts.mcp, APPS_FILE: parts.apps}
    made = {
        "skills": "./skills/" if parts.skills else None,
        "mcpServers": f"./{MCP_FILE}" if parts.mcp else None,
        "apps": f"./{APPS_FILE}" if parts.apps else None,
    }
    manifest = _to_fill_in(name, made) if parts.placeholders else _loadable(name, made, category)
    files = {MANIFESTS[0]: manifest, **{path: _STUBS[path] for path, wanted in stubs.items() if wanted}}
    return Plan(
        name,
        tuple(folder for folder, wanted in chosen.items() if wanted),
        {path: json.dumps(value, ensure_ascii=False, indent=2) + "\n" for path, value in files.items()},
    )


def create(
    name: str,
    parts: Parts = MANIFEST_ONLY,
    *,
    folder: Path | None = None,
    marketplace: Policy | None = None,
    category: str = "Productivity",
    force: bool = False,
) -> Created:
    """Make a plugin in `folder` (`./plugins`), and its entry in a marketplace if that is wanted. With `force` the
    manifest, the stubs and the entry of one that is there are replaced; without, nothing may be there yet.

    Everything is looked at first: if this raises PluginError or MarketplaceError, nothing was made. Blocks.
    """
    policy = marketplace
    planned = plan(name, parts, category)
    target = Path(os.path.abspath((folder or DEFAULT_FOLDER).expanduser())) / planned.name
    _check_target(target, force)
    file = None if policy is None else Path(os.path.abspath((policy.file or PLACE).expanduser()))
    entry = None if policy is None else _entry(planned.name, policy)
    new = NewMarketplace(*_todo("name", "displayName")) if parts.placeholders else PERSONAL
    if file is not None and entry is not None:
        check_entry(file, entry, target, force=force, new=new)
    there = os.path.lexists(target)
    anew = not (there and force)
    try:
        _write_anew(planned, target) if anew else _write_over(planned, target)
    except OSError as error:
        raise PluginError(f"{target}: {why(error)}") from None
    if file is not None and entry is not None:
        try:
            add_entry(file, entry, force=force, new=new)
        except MarketplaceError:
            if anew:
                shutil.rmtree(target, ignore_errors=True)
            if anew and there:
                target.mkdir()
            raise
    note = None if planned.name == name else f"the plugin is called {planned.name!r}, made of {name!r}"
    return Created(planned.name, target, target / planned.manifest, file, note)


# -- the manifest -------------------------------------------------------------------------------------------------


def _loadable(name: str, made: dict[str, str | None], category: str) -> dict[str, Any]:
    shown = shown_name(name)
    return {
        "name": name,
        "version": "0.1.0",
        "description": f"The plugin {shown}.",
        "author": {"name": DEVELOPER},
        **{member: path for member, path in made.items() if path is not None},
        "interface": {
            "displayName": shown,
            "shortDescription": f"The plugin {shown}.",
            "longDescription": f"The plugin {shown}, and what it is good for.",
            "developerName": DEVELOPER,
            "category": category,
            "capabilities": [],
            "defaultPrompt": [f"Show me what {shown} can do"],
        },
    }


def _to_fill_in(name: str, made: dict[str, str | None]) -> dict[str, Any]:
    texts = ("displayName", "shortDescription", "longDescription", "developerName", "category")
    urls = ("websiteURL", "privacyPolicyURL", "termsOfServiceURL")
    return {
        "name": name,
        **dict(zip(("version", "description"), _todo("version, as 0.1.0", "description"), strict=True)),
        "author": dict(zip(("name", "email", "url"), _todo("name", "email", "https://…"), strict=True)),
        **dict(zip(("homepage", "repository", "license"), _todo("https://…", "https://…", "MIT"), strict=True)),
        "keywords": _todo("keyword", "keyword"),
        "skills": made["skills"] or _todo("./skills/")[0],
        "hooks": _todo("./hooks/hooks.json")[0],
        "mcpServers": made["mcpServers"] or _todo(f"./{MCP_FILE}")[0],
        "apps": made["apps"] or _todo(f"./{APPS_FILE}")[0],
        "interface": {
            **dict(zip(texts, _todo(*texts), strict=True)),
            "capabilities": _todo("Interactive", "Write"),
            **dict(zip(urls, _todo(*["https://…"] * 3), strict=True)),
            "defaultPrompt": _todo("a prompt", "a prompt", "a prompt"),
            "brandColor": _todo("#RRGGBB")[0],
            "composerIcon": _todo("./assets/icon.png")[0],
            "logo": _todo("./assets/logo.png")[0],
            "screenshots": _todo(*[f"./assets/screenshot{number}.png" for number in (1, 2, 3)]),
        },
    }


def _todo(*examples: str) -> list[str]:
    return [f"[TODO: {example}]" for example in examples]


# -- checks -------------------------------------------------------------------------------------------------------


def _check_target(target: Path, force: bool) -> None:
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise PluginError(f"{target} is there, and is no folder")
    try:
        if not force and os.listdir(target):
            raise PluginError(f"{target} is there already; --force replaces its manifest, stubs and entry")
    except OSError as error:
        raise PluginError(f"{target}: {why(error)}") from None
    outside = next((each for each in _ancestors_of_files(target) if not _below(each, target)), None)
    if outside is not None:
        raise PluginError(f"{outside} is a link that leads out of the plugin; nothing is written through it")


def _ancestors_of_files(target: Path) -> Iterator[Path]:
    yield (target / MANIFESTS[0]).parent
    yield from (target / path for path in (MANIFESTS[0], *_STUBS))


def _below(path: Path, folder: Path) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder).rstrip("/") + "/")


def _entry(name: str, policy: Policy) -> NewEntry:
    return NewEntry(
        name=name,
        installation=policy.installation,
        authentication=policy.authentication,
        category=policy.category,
    )


# -- writing ------------------------------------------------------------------------------------------------------


def _write_anew(planned: Plan, target: Path) -> None:
    """All of it beside, then renamed into its place, which may be an empty folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{planned.name}."))
    try:
        inner = beside / planned.name  # made with the user's own umask
        inner.mkdir()
        _write_over(planned, inner)
        os.rename(inner, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write_over(planned: Plan, target: Path) -> None:
    for folder in planned.folders:
        (target / folder).mkdir(exist_ok=True)
    for path, text in planned.files.items():
        file = target / path
        file.parent.mkdir(exist_ok=True)
        replace_file(file, text.encode())
