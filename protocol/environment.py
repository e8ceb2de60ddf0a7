"""`environment/*`: what this machine is (wire-spec section 6)."""

from __future__ import annotations

from typing import Literal

import msgspec

from protocol.wire_types import WireStruct


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
    fs_watch_missing: bool = False
    capability_discovery_v2: bool = False
    environment_config_read: bool = False
    http_header_env_vars: bool = False
    sandboxed_file_streaming: bool = False
    file_write_streaming: bool = False
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


class EnvironmentStatus(WireStruct, frozen=True):
    """The result of `environment/status`."""

    status: Literal["ready"] = "ready"
