"""`environment/*`, `environmentConfig/*` and `capabilities/*`: what this machine is (docs/protocol.md,
"environment/info").
"""

from __future__ import annotations

from typing import Literal

import msgspec

from protocol.requests import NoParams, Owner, Params
from protocol.sandbox import Sandbox
from protocol.wire_types import Name, PathText, WireStruct


class Shell(WireStruct, frozen=True):
    """The login shell: its short name (`bash`) and its absolute path."""

    name: str
    path: str


class Capabilities(WireStruct, frozen=True):
    """What upstream's clients ask about. False for all that this server lacks."""

    network_proxy_launch: bool = False
    network_proxy_review_domains: bool = False
    network_proxy_transparent_tcp: bool = False
    credential_masking: bool = False
    credential_masking_custom_providers: bool = False
    capability_discovery_sandbox: bool = False
    fs_watch_missing: bool = True
    capability_discovery_v2: bool = False
    environment_config_read: bool = False
    http_header_env_vars: bool = False
    sandboxed_file_streaming: bool = False
    file_write_streaming: bool = True
    shell_snapshot_v2: bool = False
    windows_mxc: bool = False
    linux_root_write_preserves_devices: bool = False
    linux_approved_root_write_preserves_restrictions: bool = False


class EnvironmentInfo(WireStruct, frozen=True):
    """The result of `environment/info`, and a member of that of `initialize`. Paths of directories are
    `file:` URIs.
    """

    shell: Shell
    executor_version: str
    provider_id: str
    """Stable for a host: `sha256:…`."""
    cwd: str
    user_home_dir: str
    platform_os: str
    temp_dir: str
    prepend_path_dirs: list[str] = msgspec.field(default_factory=list)
    temporary_directories: list[str] = msgspec.field(default_factory=list)
    capabilities: Capabilities = Capabilities()


class EnvironmentInfoParams(NoParams, frozen=True):
    """No params."""

    METHOD = "environment/info"
    RESULT = EnvironmentInfo
    FAMILY = "environment info"
    OWNER = Owner.SESSION
    REPEATABLE = True


class EnvironmentStatus(WireStruct, frozen=True):
    """The result of `environment/status`."""

    status: Literal["ready"] = "ready"


class EnvironmentStatusParams(NoParams, frozen=True):
    """No params."""

    METHOD = "environment/status"
    RESULT = EnvironmentStatus
    FAMILY = "environment status"
    OWNER = Owner.SESSION
    REPEATABLE = True


class ConfigLayer(WireStruct, frozen=True):
    """One file's part: `toml` is a document; relative paths in it are meant from `base_dir`, a `file:` URI."""

    source: str
    base_dir: str
    toml: str


class ConfigLayers(WireStruct, frozen=True):
    """Layers that belong together, the weakest first."""

    layers: list[ConfigLayer]
    cloud_insertion_index: int = 0


class EnvironmentConfigReadResult(WireStruct, frozen=True):
    """Folders are `file:` URIs. There are no requirements here."""

    user_home_dir: str
    codex_home_dir: str
    hostname: str
    config: ConfigLayers
    requirements: ConfigLayers


class EnvironmentConfigReadParams(Params, frozen=True):
    """Which parts of the machine's Codex configuration: each path is the keys from the top of the document."""

    METHOD = "environmentConfig/read"
    RESULT = EnvironmentConfigReadResult
    FAMILY = "environment config"

    cwd: PathText
    config_paths: list[list[Name]]
    requirements_paths: list[list[Name]]


class TextFile(WireStruct, frozen=True):
    """A file with its text."""

    path: str
    contents: str


class SkillTool(WireStruct, frozen=True):
    """A tool that a skill needs."""

    type: str
    value: str
    description: str | None = None
    transport: str | None = None
    command: str | None = None
    url: str | None = None
    oauth_callback_port: int | None = None


class SkillDependencies(WireStruct, frozen=True):
    """What a skill needs."""

    tools: list[SkillTool]


class SkillPolicy(WireStruct, frozen=True):
    """When a skill may be used."""

    allow_implicit_invocation: bool | None = None
    products: list[str] = msgspec.field(default_factory=list)


class DiscoveredSkill(WireStruct, frozen=True, kw_only=True):
    """A skill by its full name, `plugin:skill` in a plugin; `path` is that of its SKILL.md."""

    name: str
    description: str
    short_description: str | None
    path: str
    dependencies: SkillDependencies | None
    policy: SkillPolicy | None


class DiscoveryRoot(WireStruct, frozen=True):
    """A folder that skills are looked for in."""

    id: str
    path: str


class RootedSkill(DiscoveredSkill, frozen=True, kw_only=True):
    """A skill that is in no installed plugin."""

    discovery_root: DiscoveryRoot


class PluginFiles(WireStruct, frozen=True):
    """The files of a plugin that clients read."""

    manifest: TextFile
    mcp_config: TextFile | None
    apps_config: TextFile | None


class DiscoveredPlugin(WireStruct, frozen=True, kw_only=True):
    """An installed plugin, `name@marketplace`, in the version that counts."""

    id: str
    display_name: str
    remote_plugin_id: str | None
    version: str
    root: str
    files: PluginFiles
    skills: list[DiscoveredSkill]


class CapabilitiesDiscoverV2Result(WireStruct, frozen=True):
    """What is installed, and why something may be missing."""

    plugins: list[DiscoveredPlugin]
    skills: list[RootedSkill]
    warnings: list[str]


class CapabilitiesDiscoverV2Params(Params, frozen=True):
    """What plugins and skills are installed, for somebody who works in `cwd`."""

    METHOD = "capabilities/discoverV2"
    RESULT = CapabilitiesDiscoverV2Result
    FAMILY = "capability discovery"

    cwd: PathText
    sandbox: Sandbox | None = None
