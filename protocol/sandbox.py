"""`sandbox` member of requests: what a command or a file request may do (docs/protocol.md, "Sandbox"). Shapes only.

In what a managed sandbox permits, an unknown member is refused: it might take away what the others give. Members beside
the permissions that are not listed here say nothing about them, and are ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from protocol.wire_types import PathText, WireStruct

Access = Literal["read", "write", "deny", "none"]
"""`none` is `deny`: not even to be read."""
NetworkAccess = Literal["restricted", "enabled"]


Roots = Annotated[list[PathText], msgspec.Meta(max_length=1000)]


class SpecialPlace(WireStruct, frozen=True, tag_field="kind", rename=None, forbid_unknown_fields=True):
    """A place that is known by what it is."""


class Root(SpecialPlace, frozen=True, tag="root"):
    """All of the file system."""


class Minimal(SpecialPlace, frozen=True, tag="minimal"):
    """What programs need in order to run: `/usr`, `/bin`, `/lib`, `/etc` and the like."""


class CurrentWorkingDirectory(SpecialPlace, frozen=True, tag="current_working_directory"):
    """The `cwd` of the sandbox."""


class ProjectRoots(SpecialPlace, frozen=True, tag="project_roots"):
    """Each of the `workspaceRoots` of the sandbox, or a path below each."""

    subpath: PathText | None = None


class TmpDir(SpecialPlace, frozen=True, tag="tmpdir"):
    """The directory that `TMPDIR` of the server names."""


class SlashTmp(SpecialPlace, frozen=True, tag="slash_tmp"):
    """`/tmp`."""


class Unknown(SpecialPlace, frozen=True, tag="unknown"):
    """A place that the client itself does not understand; gives nothing."""

    path: PathText
    subpath: PathText | None = None


class EntryPath(WireStruct, frozen=True, tag_field="type", rename=None, forbid_unknown_fields=True):
    """What an entry is about."""


class PlainPath(EntryPath, frozen=True, tag="path"):
    """A file or directory with all below it; a `file:` URI or a native absolute path."""

    path: PathText


class GlobPattern(EntryPath, frozen=True, tag="glob_pattern"):
    """All paths that match."""

    pattern: PathText


class SpecialPath(EntryPath, frozen=True, tag="special"):
    """A place that is known by what it is."""

    value: Root | Minimal | CurrentWorkingDirectory | ProjectRoots | TmpDir | SlashTmp | Unknown


class Entry(WireStruct, frozen=True, rename=None, forbid_unknown_fields=True):
    """What may be done at a path and below it; the most specific path decides, and of the same path `deny`, then
    `write`."""

    path: PlainPath | GlobPattern | SpecialPath
    access: Access
    missing_path_behavior: Literal["skip"] | None = None


class FileSystemPolicy(WireStruct, frozen=True, tag_field="type", rename=None, forbid_unknown_fields=True):
    """What a managed sandbox does to the file system."""


class RestrictedFileSystem(FileSystemPolicy, frozen=True, tag="restricted"):
    """Only what the entries allow."""

    entries: Annotated[list[Entry], msgspec.Meta(max_length=1000)]
    glob_scan_max_depth: int | None = None


class UnrestrictedFileSystem(FileSystemPolicy, frozen=True, tag="unrestricted"):
    """Everything that the server's user may do."""


class Permissions(WireStruct, frozen=True, tag_field="type"):
    """What a sandboxed child may do."""


class ManagedPermissions(Permissions, frozen=True, tag="managed", rename=None, forbid_unknown_fields=True):
    """Enforced by the server; the members are spelled with an underscore on the wire."""

    file_system: RestrictedFileSystem | UnrestrictedFileSystem
    network: NetworkAccess


class DisabledPermissions(Permissions, frozen=True, tag="disabled"):
    """No sandbox."""


class ExternalPermissions(Permissions, frozen=True, tag="external"):
    """Whoever runs the server has sandboxed it."""

    network: NetworkAccess


class PolicyContext(WireStruct, frozen=True):
    """Where the policy was made."""

    cwd: PathText | None = None
    workspace_roots: Roots | None = None


class Sandbox(WireStruct, frozen=True):
    """The sandbox that a request shall be carried out in. `cwd` and `workspace_roots` are paths or `file:` URIs."""

    permissions: ManagedPermissions | DisabledPermissions | ExternalPermissions
    windows_sandbox_level: Literal["disabled", "restricted-token", "elevated", "mxc"]
    cwd: PathText | None = None
    workspace_roots: Roots | None = None
    policy_context: PolicyContext | None = None
    use_legacy_landlock: bool = False


def to_enforce(sandbox: Sandbox | None) -> ManagedPermissions | None:
    """What the server has to enforce, None where that is nothing: no sandbox, somebody else's, or one that permits
    everything.
    """
    permissions = None if sandbox is None else sandbox.permissions
    if not isinstance(permissions, ManagedPermissions):
        return None
    if isinstance(permissions.file_system, UnrestrictedFileSystem) and permissions.network == "enabled":
        return None
    return permissions
