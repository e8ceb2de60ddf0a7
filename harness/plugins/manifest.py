"""`plugin.json`, the manifest of a plugin, as it is read: what is of no use in it is left out, and told. Pure but for
`load_manifest`.
"""

from __future__ import annotations

import posixpath
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from harness.errors import PluginError, ReadError
from harness.plugins.members import Members
from harness.reader import Reader
from protocol.plugin_files import (
    DEFAULT_SKILLS,
    MANIFESTS,
    MAX_MANIFEST_BYTES,
    decoded_object,
    is_segment,
    kind_of,
    plugin_name,
    quoted,
)

MAX_PROMPTS = 3
MAX_PROMPT_CHARACTERS = 128
_MEMBER = {"mcp_servers": "mcpServers", "composer_icon": "composerIcon"}


class Author(Struct, frozen=True):
    """The author of a plugin."""

    name: str | None = None
    email: str | None = None
    url: str | None = None


class Interface(Struct, frozen=True, kw_only=True):
    """How a plugin is shown to people. Pictures are paths relative to its folder."""

    display_name: str | None = None
    short_description: str | None = None
    long_description: str | None = None
    developer_name: str | None = None
    category: str | None = None
    capabilities: tuple[str, ...] = ()
    website_url: str | None = None
    privacy_policy_url: str | None = None
    terms_of_service_url: str | None = None
    default_prompt: tuple[str, ...] = ()
    brand_color: str | None = None
    composer_icon: str | None = None
    logo: str | None = None
    screenshots: tuple[str, ...] = ()


class PluginManifest(Struct, frozen=True, kw_only=True):
    """The manifest of a plugin. Paths are relative to the plugin's folder, without `./`; None and () are for what is
    absent or of no use. `warnings` say what was left out, each with the member.
    """

    name: str
    version: str | None = None
    description: str | None = None
    author: Author | None = None
    homepage: str | None = None
    repository: str | None = None
    license: str | None = None
    keywords: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    hooks: str | None = None
    mcp_servers: str | dict[str, Any] | None = None
    apps: str | None = None
    interface: Interface | None = None
    warnings: tuple[str, ...] = ()

    @property
    def skill_folders(self) -> tuple[str, ...]:
        """Where its skills are: the default place, then those that it names."""
        return tuple(dict.fromkeys((DEFAULT_SKILLS, *self.skills)))


class LoadedManifest(NamedTuple):
    """The manifest of a folder, None if it has none that is usable; `path` is the file, if there is one."""

    manifest: PluginManifest | None
    path: str | None
    warnings: tuple[str, ...]


def parse_manifest(data: bytes, folder: str) -> PluginManifest:
    """The manifest in a file, for a plugin whose folder is called `folder`. Raises PluginError, with the reason, for
    what is no JSON, no object, or has a `name` that is no string.
    """
    try:
        values = decoded_object(data)
        name = plugin_name(values, folder)
    except ValueError as error:
        raise PluginError(f"no manifest: {error}") from None
    warnings: list[str] = []
    members = Members(values, warnings)
    if not is_segment(name):
        members.warn(
            "name", f"{quoted(name)} has other characters than letters, digits, `_` and `-`: it can name no id"
        )
    version = members.text("version")
    return PluginManifest(
        name=name,
        version=version and version.strip(),
        description=members.text("description"),
        author=_author(members.object("author")),
        homepage=members.text("homepage"),
        repository=members.text("repository"),
        license=members.text("license"),
        keywords=members.texts("keywords"),
        skills=members.paths("skills", lone=True),
        hooks=members.path("hooks"),
        mcp_servers=members.path_or_object("mcpServers"),
        apps=members.path("apps"),
        interface=_interface(members.object("interface")),
        warnings=tuple(warnings),
    )


async def load_manifest(reader: Reader, folder: str) -> LoadedManifest:
    """The manifest of a plugin's folder. Paths in it that lead out of the folder by a link are left out as well. What
    keeps it from being read is a warning.
    """
    found = await read_manifest(reader, folder)
    if found.data is None:
        return LoadedManifest(None, found.path, found.warnings)
    try:
        manifest = parse_manifest(found.data, posixpath.basename(folder.rstrip("/")))
    except PluginError as error:
        return LoadedManifest(None, found.path, (f"{found.path}: {error}",))
    manifest = await _inside(reader, folder, manifest)
    return LoadedManifest(manifest, found.path, tuple(f"{found.path}: {each}" for each in manifest.warnings))


def prompts(members: Members, name: str) -> tuple[str, ...]:
    """The prompts that a plugin suggests: white space collapsed, at most MAX_PROMPTS, in order. Left out, with a
    warning, is what is blank, no string, or too long.
    """
    value = members.value(name)
    if value is None:
        return ()
    if not isinstance(value, str | list):
        members.warn(name, f"it has to be a string or a list, not {kind_of(value)}; left out")
        return ()
    taken: list[str] = []
    for index, item in enumerate(members.first_of(name, value) if isinstance(value, list) else [value]):
        member = f"{name}[{index}]" if isinstance(value, list) else name
        if not isinstance(item, str):
            members.warn(member, f"it has to be a string, not {kind_of(item)}; left out")
            continue
        text = " ".join(item.split())
        if not text:
            members.warn(member, "it is blank; left out")
        elif len(text) > MAX_PROMPT_CHARACTERS:
            members.warn(member, f"it has {len(text)} characters, more than {MAX_PROMPT_CHARACTERS}; left out")
        elif len(taken) == MAX_PROMPTS:
            members.warn(member, f"at most {MAX_PROMPTS} are taken; left out")
        else:
            taken.append(text)
    return tuple(taken)


def _author(members: Members | None) -> Author | None:
    if members is None:
        return None
    author = Author(members.text("name"), members.text("email"), members.text("url"))
    return None if author == Author() else author


def _interface(members: Members | None) -> Interface | None:
    if members is None:
        return None
    interface = Interface(
        display_name=members.text("displayName"),
        short_description=members.text("shortDescription"),
        long_description=members.text("longDescription"),
        developer_name=members.text("developerName"),
        category=members.text("category"),
        capabilities=members.texts("capabilities"),
        website_url=members.text("websiteURL"),
        privacy_policy_url=members.text("privacyPolicyURL"),
        terms_of_service_url=members.text("termsOfServiceURL"),
        default_prompt=prompts(members, "defaultPrompt"),
        brand_color=members.text("brandColor"),
        composer_icon=members.path("composerIcon"),
        logo=members.path("logo"),
        screenshots=members.paths("screenshots"),
    )
    return None if interface == Interface() else interface


class ReadManifest(NamedTuple):
    """The content of the manifest of a folder; None if it has none that can be read."""

    data: bytes | None
    path: str | None
    warnings: tuple[str, ...] = ()


async def read_manifest(reader: Reader, folder: str) -> ReadManifest:
    """The file that is the manifest of a folder: the first of MANIFESTS that is there as a file."""
    for place in MANIFESTS:
        path = posixpath.join(folder, place)
        try:
            data = await reader.read_at_most(path, MAX_MANIFEST_BYTES + 1)
        except ReadError as error:
            if error.kind in ("notFound", "notAFolder", "notAFile"):
                continue
            return ReadManifest(None, path, (str(error),))
        if len(data) > MAX_MANIFEST_BYTES:
            return ReadManifest(None, path, (f"{path}: it has more than {MAX_MANIFEST_BYTES} bytes",))
        return ReadManifest(data, path)
    return ReadManifest(None, None)


async def _inside(reader: Reader, folder: str, manifest: PluginManifest) -> PluginManifest:
    """The manifest without the paths that a link leads out of the folder."""
    names = ("skills", "hooks", "mcp_servers", "apps")
    shown = ("composer_icon", "logo", "screenshots")
    real = await reader.resolve(folder)
    warnings = list(manifest.warnings)

    async def kept(where: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple([each for each in value if await kept(where, each) is not None])
        if not isinstance(value, str) or await leads_inside(reader, folder, real, value):
            return value
        warnings.append(f"{where}: `./{value}` leads out of the plugin by a link; left out")
        return None

    paths = {name: await kept(_MEMBER.get(name, name), getattr(manifest, name)) for name in names}
    interface = manifest.interface
    if interface is not None:
        pictures = {
            name: await kept(f"interface.{_MEMBER.get(name, name)}", getattr(interface, name)) for name in shown
        }
        interface = replace(interface, **pictures)
    return replace(manifest, **paths, interface=interface, warnings=tuple(warnings))


async def leads_inside(reader: Reader, folder: str, real_folder: str, path: str) -> bool:
    """Whether a path below a folder, links followed, is below the folder's real path. Of a path that is not there the
    part that is decides.
    """
    parts = path.split("/")
    while parts:
        try:
            real = await reader.resolve(posixpath.join(folder, *parts))
        except ReadError as error:
            if error.kind not in ("notFound", "notAFolder"):
                return False
            parts.pop()
            continue
        return real.startswith(real_folder.rstrip("/") + "/")
    return True
