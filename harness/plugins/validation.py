"""What is wrong with a plugin's folder, stricter than reading is: for those who make plugins. Blocks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from harness.disk import NotAFile, read_file, why
from harness.errors import MarketplaceError, PluginError
from harness.plugins.manifest import MAX_PROMPT_CHARACTERS, MAX_PROMPTS
from harness.plugins.marketplace import PLACE, load_marketplace
from harness.plugins.scaffold import APPS_FILE, MCP_FILE
from protocol.plugin_files import (
    DEFAULT_SKILLS,
    MANIFESTS,
    MAX_MANIFEST_BYTES,
    decoded_object,
    is_segment,
    kind_of,
    relative_path,
)
from protocol.skill_file import MAX_FRONT_MATTER_BYTES, SKILL_FILE, SkillError, parse_skill, yaml_mapping

MAX_SKILL_BYTES = 1 << 20
TODO = "[TODO:"
_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")
_PNG = b"\x89PNG\r\n\x1a\n"
_SKILL_SETTINGS = "agents/openai.yaml"

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


class Fault(Struct, frozen=True):
    """Something that is wrong: `member` is its path, in the manifest (`$.interface.logo`), or that of a file."""

    member: str
    text: str


def faults_of(folder: Path) -> list[Fault]:
    """All that is wrong with a plugin; nothing if it is valid. Raises PluginError for what is no folder."""
    root = Path(os.path.abspath(folder.expanduser()))
    if not root.is_dir():
        raise PluginError(f"{folder} is no folder")
    return _Validation(root).faults()


class _Validation:
    """One look at one plugin; faults are collected in the order of the rules."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._faults: list[Fault] = []

    def faults(self) -> list[Fault]:
        values = self._manifest()
        if values is not None:
            self._unknown_members(values)
            self._main_members(values)
            self._interface(values.get("interface"))
            self._servers(values)
            self._left_to_do(values, "$")
            self._entry(values)
        self._skills(values or {})
        return self._faults

    def _fault(self, member: str, text: str) -> None:
        self._faults.append(Fault(member, text))

    # -- the manifest -------------------------------------------------------------------------------------------

    def _manifest(self) -> dict[str, Any] | None:
        place = next((each for each in MANIFESTS if os.path.lexists(self._root / each)), MANIFESTS[0])
        return self._json(place)

    def _unknown_members(self, values: dict[str, Any]) -> None:
        for where, known in _MEMBERS.items():
            value = values.get(where) if where else values
            for name in value if isinstance(value, dict) else ():
                if name not in known:
                    self._fault(_at(where, name), "no member of this name is known")

    def _main_members(self, values: dict[str, Any]) -> None:
        from semver import Version

        name = self._text(values, "name")
        if name is not None and not is_segment(name):
            self._fault("$.name", f"it may have letters, digits, `_` and `-`, not {name!r}")
        elif name is not None and name != self._root.name:
            self._fault("$.name", f"it has to be the folder's name, {self._root.name!r}, not {name!r}")
        version = self._text(values, "version")
        if version is not None and TODO not in version and not Version.is_valid(version):
            self._fault("$.version", f"it has to be a semantic version as 0.1.0, not {version!r}")
        self._text(values, "description")
        author = self._object(values, "author", required=True)
        if author is not None:
            self._text(author, "name", "author")
            self._text(author, "email", "author", required=False)
            self._url(author, "url", "author")
        self._url(values, "homepage")
        self._url(values, "repository")
        self._text(values, "license", required=False)
        self._texts(values, "keywords")
        skills = values.get("skills")
        for index, path in enumerate(skills if isinstance(skills, list) else [skills] if skills is not None else []):
            self._path(path, f"$.skills[{index}]" if isinstance(skills, list) else "$.skills", os.path.isdir, "folder")
        if values.get("hooks") is not None:
            self._path(values["hooks"], "$.hooks", os.path.exists, "file or folder")

    def _interface(self, value: Any) -> None:
        interface = self._object({"interface": value}, "interface", required=True)
        if interface is None:
            return
        for name in _SHOWN:
            self._text(interface, name, "interface")
        self._texts(interface, "capabilities", "interface", required=True)
        for name in _URLS:
            self._url(interface, name, "interface")
        self._prompts(interface.get("defaultPrompt"))
        color = self._text(interface, "brandColor", "interface", required=False)
        if color is not None and TODO not in color and not _COLOR.fullmatch(color):
            self._fault("$.interface.brandColor", f"it has to be a color as #1A2B3C, not {color!r}")
        for name in ("composerIcon", "logo"):
            if interface.get(name) is not None:
                self._path(interface[name], f"$.interface.{name}", os.path.isfile, "file")
        self._screenshots(interface.get("screenshots"))

    def _prompts(self, value: Any) -> None:
        member = "$.interface.defaultPrompt"
        if value is None:
            self._fault(member, "it is missing")
            return
        if not isinstance(value, str | list) or not value:
            self._fault(member, "it has to be a text or a list of texts")
            return
        prompts = value if isinstance(value, list) else [value]
        if len(prompts) > MAX_PROMPTS:
            self._fault(member, f"it has {len(prompts)} prompts; only the first {MAX_PROMPTS} are shown")
        for index, prompt in enumerate(prompts):
            where = f"{member}[{index}]" if isinstance(value, list) else member
            if not isinstance(prompt, str) or not prompt.strip():
                self._fault(where, f"it has to be a text that is not blank, not {_short(prompt)}")
            elif len(" ".join(prompt.split())) > MAX_PROMPT_CHARACTERS:
                self._fault(where, f"it has more than {MAX_PROMPT_CHARACTERS} characters")

    def _screenshots(self, value: Any) -> None:
        member = "$.interface.screenshots"
        if value is None:
            return
        if not isinstance(value, list):
            self._fault(member, f"it has to be a list, not {kind_of(value)}")
            return
        for index, each in enumerate(value):
            where = f"{member}[{index}]"
            path = self._path(each, where, os.path.isfile, "file")
            if path is None:
                continue
            if not path.startswith("assets/"):
                self._fault(where, f"it has to be below ./assets/, not {each!r}")
            elif not path.lower().endswith(".png") or not self._begins(path, _PNG):
                self._fault(where, f"{each!r} is no PNG")

    # -- servers and apps ---------------------------------------------------------------------------------------

    def _servers(self, values: dict[str, Any]) -> None:
        servers = values.get("mcpServers")
        if isinstance(servers, dict):
            self._objects(servers, "$.mcpServers")
        elif servers is not None and self._is_stub(servers, "$.mcpServers", MCP_FILE):
            self._objects_in(MCP_FILE, "mcpServers")
        apps = values.get("apps")
        if apps is not None and self._is_stub(apps, "$.apps", APPS_FILE):
            self._apps(self._objects_in(APPS_FILE, "apps"))

    def _is_stub(self, value: Any, member: str, file: str) -> bool:
        if isinstance(value, str) and TODO in value:
            return False
        if value != f"./{file}":
            other = " or an object" if file == MCP_FILE else ""
            self._fault(member, f"it has to be `./{file}`{other}, not {_short(value)}")
            return False
        return True

    def _objects_in(self, file: str, member: str) -> dict[str, Any]:
        """The objects of a file, which has to have one member, an object of objects."""
        values = self._json(file)
        if values is None:
            return {}
        for name in values:
            if name != member:
                self._fault(f"{file}: $.{name}", "no member of this name is known")
        inner = values.get(member)
        if not isinstance(inner, dict):
            self._fault(f"{file}: $.{member}", f"it has to be an object, not {kind_of(inner)}")
            return {}
        return self._objects(inner, f"{file}: $.{member}")

    def _objects(self, values: dict[str, Any], where: str) -> dict[str, Any]:
        for name, value in values.items():
            if not isinstance(value, dict):
                self._fault(f"{where}.{name}", f"it has to be an object, not {kind_of(value)}")
        return {name: value for name, value in values.items() if isinstance(value, dict)}

    def _apps(self, apps: dict[str, Any]) -> None:
        for name, app in apps.items():
            where = f"{APPS_FILE}: $.apps.{name}"
            for member in app:
                if member not in ("id", "category"):
                    self._fault(f"{where}.{member}", "no member of this name is known")
            if not isinstance(app.get("id"), str) or not app["id"].strip():
                self._fault(f"{where}.id", f"it has to be a text that is not blank, not {_short(app.get('id'))}")
            if app.get("category") is not None and not isinstance(app["category"], str):
                self._fault(f"{where}.category", f"it has to be a text, not {kind_of(app['category'])}")

    # -- skills -------------------------------------------------------------------------------------------------

    def _skills(self, values: dict[str, Any]) -> None:
        declared = values.get("skills")
        named = declared if isinstance(declared, list) else [declared]
        places = [DEFAULT_SKILLS]
        for each in named:
            try:
                places += [relative_path(each)] if isinstance(each, str) else []
            except ValueError:
                continue  # a fault that is told with the member
        for place in dict.fromkeys(places):
            for name in self._folders(place):
                self._skill(f"{place}/{name}")

    def _folders(self, place: str) -> list[str]:
        folder = self._root / place
        if not folder.is_dir() or not self._is_inside(place):
            return []
        try:
            return sorted(each.name for each in os.scandir(folder) if each.is_dir() and not each.name.startswith("."))
        except OSError as error:
            self._fault(place, why(error))
            return []

    def _skill(self, place: str) -> None:
        file = f"{place}/{SKILL_FILE}"
        data = self._content(file, MAX_SKILL_BYTES)
        if data is not None:
            try:
                found = parse_skill(data[:MAX_FRONT_MATTER_BYTES], os.path.basename(place))
                for warning in found.warnings:
                    self._fault(file, warning)
                self._left_to_do(found.values, f"{file}: $")
            except SkillError as error:
                self._fault(file, str(error))
        settings = f"{place}/{_SKILL_SETTINGS}"
        if os.path.lexists(self._root / settings):
            self._skill_settings(place, settings)

    def _skill_settings(self, place: str, file: str) -> None:
        data = self._content(file, MAX_FRONT_MATTER_BYTES)
        if data is None:
            return
        try:
            values = yaml_mapping(data.decode())
        except ValueError as error:
            self._fault(file, "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error))
            return
        for member, fault in _setting_faults(values):
            self._fault(f"{file}: $.{member}", fault)
        interface = values.get("interface")
        for name in ("icon_small", "icon_large"):
            value = interface.get(name) if isinstance(interface, dict) else None
            if isinstance(value, str):
                self._path(value, f"{file}: $.interface.{name}", os.path.isfile, "file", below=place)

    # -- the marketplace ----------------------------------------------------------------------------------------

    def _entry(self, values: dict[str, Any]) -> None:
        """The entry of the marketplace that the plugin is beside, if there is one, has to lead here."""
        file = self._root.parents[1] / PLACE if len(self._root.parents) > 1 else PLACE
        if self._root.parent.name != "plugins" or not os.path.lexists(file):
            return
        try:
            marketplace = load_marketplace(file)
        except MarketplaceError as error:
            self._fault("marketplace", str(error))
            return
        entry = next((each for each in marketplace.entries if each.name == values.get("name")), None)
        if entry is None or entry.folder is None:
            return
        if os.path.realpath(entry.folder) != os.path.realpath(self._root):
            self._fault("marketplace", f"the entry {entry.name!r} in {file} leads to {entry.folder}, not here")

    # -- parts --------------------------------------------------------------------------------------------------

    def _text(self, values: dict[str, Any], name: str, where: str = "", *, required: bool = True) -> str | None:
        value = values.get(name)
        if value is None:
            if required:
                self._fault(_at(where, name), "it is missing")
            return None
        if not isinstance(value, str) or not value.strip():
            self._fault(_at(where, name), f"it has to be a text that is not blank, not {_short(value)}")
            return None
        return value

    def _texts(self, values: dict[str, Any], name: str, where: str = "", *, required: bool = False) -> None:
        value = values.get(name)
        if value is None:
            if required:
                self._fault(_at(where, name), "it is missing: it has to be a list, which may be empty")
            return
        if not isinstance(value, list):
            self._fault(_at(where, name), f"it has to be a list of texts, not {kind_of(value)}")
            return
        for index, each in enumerate(value):
            if not isinstance(each, str) or not each.strip():
                member = f"{_at(where, name)}[{index}]"
                self._fault(member, f"it has to be a text that is not blank, not {_short(each)}")

    def _object(self, values: dict[str, Any], name: str, *, required: bool = False) -> dict[str, Any] | None:
        value = values.get(name)
        if value is None and required:
            self._fault(f"$.{name}", "it is missing")
        elif value is not None and not isinstance(value, dict):
            self._fault(f"$.{name}", f"it has to be an object, not {kind_of(value)}")
        return value if isinstance(value, dict) else None

    def _url(self, values: dict[str, Any], name: str, where: str = "") -> None:
        value = self._text(values, name, where, required=False)
        if value is not None and TODO not in value and not _is_https(value):
            self._fault(_at(where, name), f"it has to be an absolute https:// URL, not {value!r}")

    def _path(
        self, value: Any, member: str, is_there: Callable[[Path], bool], kind: str, *, below: str = ""
    ) -> str | None:
        """The path of something in the plugin, relative to its folder; None after a fault."""
        if not isinstance(value, str):
            self._fault(member, f"it has to be a path, not {kind_of(value)}")
            return None
        if TODO in value:
            return None
        try:
            path = os.path.join(below, relative_path(value))
        except ValueError as error:
            self._fault(member, f"{error}, not {value!r}")
            return None
        if not self._is_inside(path):
            self._fault(member, f"{value!r} leads out of the plugin by a link")
            return None
        if not is_there(self._root / path):
            self._fault(member, f"there is no {kind} {value!r} in the plugin")
            return None
        return path

    def _is_inside(self, path: str) -> bool:
        return os.path.realpath(self._root / path).startswith(os.path.realpath(self._root).rstrip("/") + "/")

    def _begins(self, path: str, magic: bytes) -> bool:
        try:
            with open(self._root / path, "rb") as file:
                return file.read(len(magic)) == magic
        except OSError:
            return False

    def _content(self, file: str, limit: int) -> bytes | None:
        """What is in a file of the plugin; None after a fault."""
        if not self._is_inside(file):
            self._fault(file, "it leads out of the plugin by a link")
            return None
        try:
            return read_file(self._root / file, limit)
        except FileNotFoundError:
            self._fault(file, "it is missing")
        except NotAFile as error:
            self._fault(file, f"it has to be a file: {error}")
        except (OSError, ValueError) as error:
            self._fault(file, why(error))
        return None

    def _json(self, file: str) -> dict[str, Any] | None:
        data = self._content(file, MAX_MANIFEST_BYTES)
        if data is None:
            return None
        try:
            return decoded_object(data)
        except ValueError as error:
            self._fault(file, str(error))
            return None

    def _left_to_do(self, value: Any, where: str) -> None:
        """Texts that were never filled in, wherever they are."""
        waiting = [(where, value)]
        while waiting:
            where, value = waiting.pop()
            if isinstance(value, str) and TODO in value:
                self._fault(where, f"it was never filled in: {_short(value)}")
            waiting += [(f"{where}{name}", each) for name, each in _children(value)][::-1]


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f".{name}", each) for name, each in value.items())
    elif isinstance(value, list):
        yield from ((f"[{index}]", each) for index, each in enumerate(value))


def _setting_faults(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with the settings of a skill: each member, and why."""
    known: dict[str, dict[str, type]] = {
        "interface": dict.fromkeys(
            ("display_name", "short_description", "icon_small", "icon_large", "brand_color", "default_prompt"), str
        ),
        "policy": {"allow_implicit_invocation": bool},
        "dependencies": {"tools": list},
    }
    for name, value in values.items():
        if name not in known:
            yield str(name), "no member of this name is known"
        elif not isinstance(value, dict):
            yield name, f"it has to be a mapping, not {kind_of(value)}"
        else:
            for inner, each in value.items():
                wanted = known[name].get(str(inner))
                if wanted is None:
                    yield f"{name}.{inner}", "no member of this name is known"
                elif type(each) is not wanted:
                    yield f"{name}.{inner}", f"it has to be {kind_of(wanted())}, not {kind_of(each)}"
    interface = values.get("interface")
    color = interface.get("brand_color") if isinstance(interface, dict) else None
    if isinstance(color, str) and not _COLOR.fullmatch(color):
        yield "interface.brand_color", f"it has to be a color as #1A2B3C, not {color!r}"


def _is_https(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme == "https" and bool(parts.hostname) and not any(each.isspace() for each in text)
    except ValueError:
        return False


def _at(where: str, name: str) -> str:
    return f"$.{where}.{name}" if where else f"$.{name}"


def _short(value: Any) -> str:
    import reprlib

    return reprlib.repr(value)
