"""Plugins and skills that are installed for the user of this machine (docs/protocol.md, capabilities/discoverV2).

Plugins are in `$CODEX_HOME/plugins/cache/<marketplace>/<plugin>/<version>`; skills in `$CODEX_HOME/skills`,
`~/.agents/skills` and `/etc/codex/skills`, and in each plugin. What cannot be read is left out with a warning.
Blocking; for a thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from protocol.environment import (
    CapabilitiesDiscoverV2Params,
    CapabilitiesDiscoverV2Result,
    DiscoveredPlugin,
    DiscoveredSkill,
    DiscoveryRoot,
    PluginFiles,
    RootedSkill,
    TextFile,
)
from protocol.paths import native_path, path_uri
from protocol.plugin_files import (
    DEFAULT_SKILLS,
    MANIFESTS,
    MAX_MANIFEST_BYTES,
    decoded_object,
    is_segment,
    namespace,
    relative_path,
)
from protocol.sandbox import to_enforce
from protocol.skill_file import (
    MAX_FRONT_MATTER_BYTES,
    SETTINGS_FILE,
    SKILL_FILE,
    SkillSettings,
    parse_settings,
    parse_skill,
)

MAX_DEPTH = 6
"""Folders between a root and a skill's own, that one counted in."""
MAX_FOLDERS = 2_000
"""That are looked into below one root."""
MAX_CAPABILITIES = 2_048
"""Plugins and skills in one answer."""
MAX_ANSWER_BYTES = 4 << 20
MAX_WARNINGS = 64
SYSTEM_SKILLS = "/etc/codex/skills"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class FoundSkill(NamedTuple):
    """A skill and the folder that it is in."""

    skill: DiscoveredSkill
    folder: str


def discover(params: CapabilitiesDiscoverV2Params, environ: Mapping[str, str]) -> CapabilitiesDiscoverV2Result:
    """All that is installed; what folder it is asked for makes no difference. With a sandbox that has to be enforced
    nothing is read. Raises InvalidParams for a `cwd` that is no path.
    """
    native_path(params.cwd)
    if to_enforce(params.sandbox) is not None:
        return CapabilitiesDiscoverV2Result([], [], ["nothing was looked for: this server does not do so in a sandbox"])
    home = os.path.abspath(os.path.expanduser("~"))
    codex_home = os.path.abspath(environ.get("CODEX_HOME") or os.path.join(home, ".codex"))
    return _Discovery(home, codex_home).result()


class _Discovery:
    """One look at what is installed, within the bounds of one answer."""

    def __init__(self, home: str, codex_home: str) -> None:
        self._home = home
        self._codex_home = codex_home
        self._plugins: list[DiscoveredPlugin] = []
        self._skills: list[RootedSkill] = []
        self._warnings: list[str] = []
        self._count = 0
        self._bytes = 0
        self._full = False

    def result(self) -> CapabilitiesDiscoverV2Result:
        for plugin_id, folder in _installed(os.path.join(self._codex_home, "plugins", "cache")):
            self._plugin(plugin_id, folder)
        for root in (
            DiscoveryRoot("codex-home-skills", os.path.join(self._codex_home, "skills")),
            DiscoveryRoot("user-agent-skills", os.path.join(self._home, ".agents", "skills")),
            DiscoveryRoot("system-skills", SYSTEM_SKILLS),
        ):
            told = DiscoveryRoot(root.id, path_uri(root.path))
            for found in self._skills_below(root.path, root.path):
                if self._has_room(found.skill):
                    self._skills.append(RootedSkill(**msgspec.structs.asdict(found.skill), discovery_root=told))
        return CapabilitiesDiscoverV2Result(self._plugins, self._skills, self._warnings)

    # -- plugins ------------------------------------------------------------------------------------------------

    def _plugin(self, plugin_id: str, folder: str) -> None:
        place = next((place for place in MANIFESTS if os.path.isfile(os.path.join(folder, place))), None)
        manifest = None if place is None else self._text(folder, place)
        if manifest is None:
            return
        try:
            values = decoded_object(manifest.contents.encode())
            name = namespace(manifest.contents.encode(), plugin_id.partition("@")[0])
        except ValueError as error:
            self._warn(native_path(manifest.path), str(error))
            return
        places = [DEFAULT_SKILLS, *_paths(values.get("skills"))]
        skills = [
            found.skill
            for place in dict.fromkeys(places)
            for found in self._skills_below(os.path.join(folder, place), folder)
        ]
        plugin = DiscoveredPlugin(
            id=plugin_id,
            display_name=_shown_name(values) or name,
            remote_plugin_id=None,
            version=os.path.basename(folder),
            root=path_uri(folder),
            files=PluginFiles(
                manifest=manifest,
                mcp_config=self._declared(folder, values.get("mcpServers"), ".mcp.json"),
                apps_config=self._declared(folder, values.get("apps"), ".app.json"),
            ),
            skills=skills,
        )
        if self._has_room(plugin):
            self._plugins.append(plugin)

    def _declared(self, folder: str, value: Any, default: str) -> TextFile | None:
        """The file that a manifest names, else the one that is there without being named."""
        if isinstance(value, dict):
            return None  # it is in the manifest itself
        paths = _paths(value)
        if not paths and not os.path.isfile(os.path.join(folder, default)):
            return None
        return self._text(folder, paths[0] if paths else default)

    def _text(self, folder: str, place: str) -> TextFile | None:
        path = os.path.join(folder, place)
        try:
            return TextFile(path_uri(path), _read(path, folder, MAX_MANIFEST_BYTES).decode())
        except (OSError, ValueError) as error:
            self._warn(path, _why(error))
            return None

    # -- skills -------------------------------------------------------------------------------------------------

    def _skills_below(self, root: str, stop_at: str) -> list[FoundSkill]:
        """The skills below a folder, breadth first, by name; namespaces are looked for up to `stop_at`."""
        names: dict[str, str | None] = {}
        found = []
        for folder in self._folders(root, stop_at):
            if not os.path.lexists(os.path.join(folder, SKILL_FILE)):
                continue
            skill = self._skill(folder, stop_at, _namespace(folder, stop_at, names))
            if skill is not None:
                found.append(FoundSkill(skill, folder))
        return sorted(found, key=lambda each: each.folder)

    def _folders(self, root: str, stop_at: str) -> Iterator[str]:
        """A root's folders, each real one once, as deep as MAX_DEPTH."""
        waiting = deque([(root, 0)])
        seen: set[str] = set()
        while waiting:
            folder, depth = waiting.popleft()
            real = os.path.realpath(folder)
            if real in seen or (stop_at != root and not _is_below(real, stop_at)):
                continue
            seen.add(real)
            if len(seen) > MAX_FOLDERS:
                self._warn(root, f"it has more than {MAX_FOLDERS} folders; the others were not looked into")
                return
            try:
                with os.scandir(folder) as entries:
                    inner = sorted(each.name for each in entries if not each.name.startswith(".") and each.is_dir())
            except FileNotFoundError:
                continue
            except OSError as error:
                self._warn(folder, _why(error))
                continue
            yield folder
            if depth < MAX_DEPTH:
                waiting += [(os.path.join(folder, name), depth + 1) for name in inner]

    def _skill(self, folder: str, root: str, plugin: str | None) -> DiscoveredSkill | None:
        path = os.path.join(folder, SKILL_FILE)
        try:
            found = parse_skill(_beginning(path, root, MAX_FRONT_MATTER_BYTES), os.path.basename(folder))
        except (OSError, ValueError) as error:
            self._warn(path, _why(error))
            return None
        for warning in found.warnings:
            self._warn(path, warning)
        settings = self._settings(folder, root)
        return DiscoveredSkill(
            name=found.name if plugin is None else f"{plugin}:{found.name}",
            description=found.description,
            short_description=found.short_description,
            path=path_uri(path),
            dependencies=settings.dependencies,
            policy=settings.policy,
        )

    def _settings(self, folder: str, root: str) -> SkillSettings:
        path = os.path.join(folder, SETTINGS_FILE)
        try:
            return parse_settings(_read(path, root, MAX_FRONT_MATTER_BYTES))
        except FileNotFoundError:
            return SkillSettings()
        except (OSError, ValueError) as error:
            self._warn(path, f"{_why(error)}; the skill is listed without it")
            return SkillSettings()

    # -- bounds -------------------------------------------------------------------------------------------------

    def _has_room(self, item: DiscoveredPlugin | DiscoveredSkill) -> bool:
        """Whether an item fits into the answer; after the first that does not, none does."""
        self._count += 1 + (len(item.skills) if isinstance(item, DiscoveredPlugin) else 0)
        self._bytes += len(msgspec.json.encode(item))
        if not self._full and (self._count > MAX_CAPABILITIES or self._bytes > MAX_ANSWER_BYTES):
            self._full = True
            self._warnings.append("there is more than one answer holds; the rest is left out")
        return not self._full

    def _warn(self, path: str, why: str) -> None:
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings.append(f"{path}: {why}")


def _installed(cache: str) -> Iterator[tuple[str, str]]:
    """The ids of installed plugins, each with the folder of the version that counts."""
    for marketplace in _segments(cache):
        for plugin in _segments(os.path.join(cache, marketplace)):
            folder = os.path.join(cache, marketplace, plugin)
            versions = _names(folder)
            if versions:
                yield f"{plugin}@{marketplace}", os.path.join(folder, max(versions, key=version_key))


def version_key(name: str) -> tuple[Any, ...]:
    """What versions are compared by: `local` is the highest, then semantic versions by their precedence (semver.org,
    11), then all else by name.
    """
    match = _VERSION.fullmatch(name)
    if match is None:
        return (2 if name == "local" else 0, name)
    before = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in (match[4] or "").split(".") if part
    )
    return (1, int(match[1]), int(match[2]), int(match[3]), not before, before)


def _segments(folder: str) -> list[str]:
    return [name for name in _names(folder) if is_segment(name)]


def _names(folder: str) -> list[str]:
    """The folders in a folder, by name; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(each.name for each in entries if not each.name.startswith(".") and each.is_dir())
    except OSError:
        return []


def _namespace(folder: str, stop_at: str, names: dict[str, str | None]) -> str | None:
    """The plugin that a folder is in, no higher than `stop_at`."""
    while True:
        if folder not in names:
            names[folder] = _name_of(folder)
        if names[folder] is not None or folder == stop_at:
            return names[folder]
        folder = os.path.dirname(folder)


def _name_of(folder: str) -> str | None:
    for place in MANIFESTS:
        path = os.path.join(folder, place)
        if os.path.isfile(path):
            try:
                return namespace(_read(path, folder, MAX_MANIFEST_BYTES), os.path.basename(folder))
            except (OSError, ValueError):
                return None
    return None


def _paths(value: Any) -> list[str]:
    """The paths of a member of a manifest that can be used."""
    paths = []
    for each in value if isinstance(value, list) else [value]:
        try:
            paths += [relative_path(each)] if isinstance(each, str) else []
        except ValueError:
            continue
    return paths


def _shown_name(values: Mapping[str, Any]) -> str | None:
    interface = values.get("interface")
    name = interface.get("displayName") if isinstance(interface, dict) else None
    return name.strip() or None if isinstance(name, str) else None


def _beginning(path: str, root: str, limit: int) -> bytes:
    """The first bytes of a regular file. A link may lead to another file of its folder, or of the root. Raises OSError,
    ValueError.
    """
    real = os.path.realpath(path, strict=True)
    if not _is_below(real, os.path.dirname(path)) and not _is_below(real, root):
        raise ValueError("it leads out of its folder by a link")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would never open otherwise
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        return file.read(limit)


def _read(path: str, root: str, limit: int) -> bytes:
    """All of a file, within a bound."""
    data = _beginning(path, root, limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit} bytes")
    return data


def _is_below(real: str, folder: str) -> bool:
    return (real + "/").startswith(os.path.realpath(folder).rstrip("/") + "/")


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {error.start})"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
