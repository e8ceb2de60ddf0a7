"""The `sandbox` member of requests: what a command or a file request may do (wire-spec section 5.1.3). Shapes only."""

from __future__ import annotations

from typing import Any, Literal

from protocol.wire_types import WireStruct


class FileSystemPolicy(WireStruct, frozen=True, tag_field="type"):
    """What a managed sandbox does to the file system."""


class RestrictedFileSystem(FileSystemPolicy, frozen=True, tag="restricted"):
    """Only what the entries allow."""

    entries: list[dict[str, Any]]


class UnrestrictedFileSystem(FileSystemPolicy, frozen=True, tag="unrestricted"):
    """Everything that the server's user may do."""


class Permissions(WireStruct, frozen=True, tag_field="type"):
    """What a sandboxed child may do."""


class ManagedPermissions(Permissions, frozen=True, tag="managed", rename=None):
    """Enforced by the server; these two members are spelled with an underscore on the wire."""

    file_system: RestrictedFileSystem | UnrestrictedFileSystem
    network: Any


class DisabledPermissions(Permissions, frozen=True, tag="disabled"):
    """No sandbox."""


class ExternalPermissions(Permissions, frozen=True, tag="external"):
    """Whoever runs the server has sandboxed it."""

    network: Any


class Sandbox(WireStruct, frozen=True):
    """The sandbox that a request shall be carried out in."""

    permissions: ManagedPermissions | DisabledPermissions | ExternalPermissions
    windows_sandbox_level: Literal["disabled", "restricted-token", "elevated", "mxc"]
