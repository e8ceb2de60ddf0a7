"""What is wrong with a plugin's folder, stricter than reading is: for those who make plugins. Blocks."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from harness.errors import MarketplaceError, PluginError
from harness.plugins.faults import TODO, Fault, Faults, at, short
from harness.plugins.manifest import MAX_PROMPT_CHARACTERS, MAX_PROMPTS
from harness.plugins.marketplace import PLACE, load_marketplace
from harness.plugins.scaffold import APPS_FILE, MCP_FILE
from harness.plugins.skill_validation import check_skills
from protocol.plugin_files import (
    MANIFESTS,
    is_segment,
    kind_of,
)

_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")
_PNG = b"\x89PNG\r\n\x1a\n"

_URLS = ("websiteURL", "privacyPolicyURL", "termsOfServiceURL")
_SHOWN = ("displayName", "shortDescription", "longDescription", "developerName", "category")
_MEMBERS = {
    "": (
        *("name", "version", "description", "author", "homepage", "repository", "license", "keywords"),
        *("skills", "hooks", "mcpServers", "apps", "interface"),
    ),
    "author": ("name", "email", "url"),
    "interface": (
        *(*_SHOWN, "capabilities", *_URLS),
        *("defaultPrompt", "brandColor", "composerIcon", "logo", "screenshots"),
    ),
}


def faults_of(folder: Path) -> list[Fault]:
    """All that is wrong with a plugin; nothing if it is valid. Raises PluginError for what is no folder."""
    root = Path(os.path.abspath(folder.expanduser()))
    if not root.is_dir():
        raise PluginError(f"{folder} is no folder")
    faults = Faults(root)
    values = _manifest(faults)
    if values is not None:
        _unknown_members(faults, values)
        _main_members(faults, values)
        _interface(faults, values.get("interface"))
        _servers(faults, values)
        faults.left_to_do(values, "$")
        _entry(faults, values)
    check_skills(faults, values or {})
    return faults.found


# -- the manifest -------------------------------------------------------------------------------------------


def _manifest(faults: Faults) -> dict[str, Any] | None:
    place = next((each for each in MANIFESTS if os.path.lexists(faults.root / each)), MANIFESTS[0])
    return faults.json(place)


def _unknown_members(faults: Faults, values: dict[str, Any]) -> None:
    for where, known in _MEMBERS.items():
        value = values.get(where) if where else values
        for name in value if isinstance(value, dict) else ():
            if name not in known:
                faults.add(at(where, name), "no member of this name is known")


def _main_members(faults: Faults, values: dict[str, Any]) -> None:
    from semver import Version

    name = faults.text(values, "name")
    if name is not None and not is_segment(name):
        faults.add("$.name", f"it may have letters, digits, `_` and `-`, not {name!r}")
    elif name is not None and name != faults.root.name:
        faults.add("$.name", f"it has to be the folder's name, {faults.root.name!r}, not {name!r}")
    version = faults.text(values, "version")
    if version is not None and TODO not in version and not Version.is_valid(version):
        faults.add("$.version", f"it has to be a semantic version as 0.1.0, not {version!r}")
    faults.text(values, "description")
    author = faults.object(values, "author", required=True)
    if author is not None:
        faults.text(author, "name", "author")
        faults.text(author, "email", "author", required=False)
        faults.url(author, "url", "author")
    faults.url(values, "homepage")
    faults.url(values, "repository")
    faults.text(values, "license", required=False)
    faults.texts(values, "keywords")
    skills = values.get("skills")
    if isinstance(skills, list):
        for index, path in enumerate(skills):
            faults.path(path, f"$.skills[{index}]", os.path.isdir, "folder")
    elif skills is not None:
        faults.path(skills, "$.skills", os.path.isdir, "folder")
    if values.get("hooks") is not None:
        faults.path(values["hooks"], "$.hooks", os.path.exists, "file or folder")


def _interface(faults: Faults, value: Any) -> None:
    interface = faults.object({"interface": value}, "interface", required=True)
    if interface is None:
        return
    for name in _SHOWN:
        faults.text(interface, name, "interface")
    faults.texts(interface, "capabilities", "interface", required=True)
    for name in _URLS:
        faults.url(interface, name, "interface")
    _prompts(faults, interface.get("defaultPrompt"))
    color = faults.text(interface, "brandColor", "interface", required=False)
    if color is not None and TODO not in color and not _COLOR.fullmatch(color):
        faults.add("$.interface.brandColor", f"it has to be a color as #1A2B3C, not {color!r}")
    for name in ("composerIcon", "logo"):
        if interface.get(name) is not None:
            faults.path(interface[name], f"$.interface.{name}", os.path.isfile, "file")
    _screenshots(faults, interface.get("screenshots"))


def _prompts(faults: Faults, value: Any) -> None:
    member = "$.interface.defaultPrompt"
    if value is None:
        faults.add(member, "it is missing")
        return
    if not isinstance(value, str | list) or not value:
        faults.add(member, "it has to be a text or a list of texts")
        return
    prompts = value if isinstance(value, list) else [value]
    if len(prompts) > MAX_PROMPTS:
        faults.add(member, f"it has {len(prompts)} prompts; only the first {MAX_PROMPTS} are shown")
    for index, prompt in enumerate(prompts):
        where = f"{member}[{index}]" if isinstance(value, list) else member
        if not isinstance(prompt, str) or not prompt.strip():
            faults.add(where, f"it has to be a text that is not blank, not {short(prompt)}")
        elif len(" ".join(prompt.split())) > MAX_PROMPT_CHARACTERS:
            faults.add(where, f"it has more than {MAX_PROMPT_CHARACTERS} characters")


def _screenshots(faults: Faults, value: Any) -> None:
    member = "$.interface.screenshots"
    if value is None:
        return
    if not isinstance(value, list):
        faults.add(member, f"it has to be a list, not {kind_of(value)}")
        return
    for index, each in enumerate(value):
        where = f"{member}[{index}]"
        path = faults.path(each, where, os.path.isfile, "file")
        if path is None:
            continue
        if not path.startswith("assets/"):
            faults.add(where, f"it has to be below ./assets/, not {each!r}")
        elif not path.lower().endswith(".png") or not faults.begins(path, _PNG):
            faults.add(where, f"{each!r} is no PNG")


# -- servers and apps ---------------------------------------------------------------------------------------


def _servers(faults: Faults, values: dict[str, Any]) -> None:
    servers = values.get("mcpServers")
    if isinstance(servers, dict):
        _objects(faults, servers, "$.mcpServers")
    elif servers is not None and _is_stub(faults, servers, "$.mcpServers", MCP_FILE):
        _objects_in(faults, MCP_FILE, "mcpServers")
    apps = values.get("apps")
    if apps is not None and _is_stub(faults, apps, "$.apps", APPS_FILE):
        _apps(faults, _objects_in(faults, APPS_FILE, "apps"))


def _is_stub(faults: Faults, value: Any, member: str, file: str) -> bool:
    if isinstance(value, str) and TODO in value:
        return False
    if value != f"./{file}":
        other = " or an object" if file == MCP_FILE else ""
        faults.add(member, f"it has to be `./{file}`{other}, not {short(value)}")
        return False
    return True


def _objects_in(faults: Faults, file: str, member: str) -> dict[str, Any]:
    """The objects of a file, which has to have one member, an object of objects."""
    values = faults.json(file)
    if values is None:
        return {}
    for name in values:
        if name != member:
            faults.add(f"{file}: $.{name}", "no member of this name is known")
    inner = values.get(member)
    if not isinstance(inner, dict):
        faults.add(f"{file}: $.{member}", f"it has to be an object, not {kind_of(inner)}")
        return {}
    return _objects(faults, inner, f"{file}: $.{member}")


def _objects(faults: Faults, values: dict[str, Any], where: str) -> dict[str, Any]:
    for name, value in values.items():
        if not isinstance(value, dict):
            faults.add(f"{where}.{name}", f"it has to be an object, not {kind_of(value)}")
    return {name: value for name, value in values.items() if isinstance(value, dict)}


def _apps(faults: Faults, apps: dict[str, Any]) -> None:
    for name, app in apps.items():
        where = f"{APPS_FILE}: $.apps.{name}"
        for member in app:
            if member not in ("id", "category"):
                faults.add(f"{where}.{member}", "no member of this name is known")
        if not isinstance(app.get("id"), str) or not app["id"].strip():
            faults.add(f"{where}.id", f"it has to be a text that is not blank, not {short(app.get('id'))}")
        if app.get("category") is not None and not isinstance(app["category"], str):
            faults.add(f"{where}.category", f"it has to be a text, not {kind_of(app['category'])}")


# -- the marketplace ----------------------------------------------------------------------------------------


def _entry(faults: Faults, values: dict[str, Any]) -> None:
    """The entry of the marketplace that the plugin is beside, if there is one, has to lead here."""
    file = faults.root.parent.parent / PLACE
    if faults.root.parent.name != "plugins" or not os.path.lexists(file):
        return
    try:
        marketplace = load_marketplace(file)
    except MarketplaceError as error:
        faults.add("marketplace", str(error))
        return
    entry = next((each for each in marketplace.entries if each.name == values.get("name")), None)
    if entry is None or entry.folder is None:
        return
    if os.path.realpath(entry.folder) != os.path.realpath(faults.root):
        faults.add("marketplace", f"the entry {entry.name!r} in {file} leads to {entry.folder}, not here")
