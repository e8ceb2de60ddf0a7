"""What commands and file tools may do: the sandbox by its name. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from protocol.sandbox import (
    CurrentWorkingDirectory,
    Entry,
    ManagedPermissions,
    RestrictedFileSystem,
    Root,
    Sandbox,
    SlashTmp,
    SpecialPath,
    TmpDir,
)

SandboxMode = Literal["read-only", "workspace-write"]


class Policy(Struct, frozen=True):
    """Where a session works, and what it may do there. Paths are absolute, and those of the machine."""

    base: str | None = None
    """The folder that relative paths begin at; None: the machine's own."""
    root: str | None = None
    """The folder that file tools do not leave; None: they may go anywhere."""
    mode: SandboxMode | None = None

    def sandbox(self, base: str) -> Sandbox | None:
        """The sandbox of all that is done from the folder `base`; None for none."""
        if self.mode is None:
            return None
        entries = [Entry(SpecialPath(Root()), "read")]
        if self.mode == "workspace-write":
            entries += [Entry(SpecialPath(place()), "write") for place in (CurrentWorkingDirectory, SlashTmp, TmpDir)]
        permissions = ManagedPermissions(RestrictedFileSystem(entries), "restricted")
        return Sandbox(permissions, "disabled", cwd=base, workspace_roots=[base])

    def explained(self, base: str) -> str:
        """What the sandbox allows, in words for a model; "" without one."""
        if self.mode is None:
            return ""
        if self.mode == "read-only":
            return "The sandbox is read-only: nothing can be written, and there is no network."
        return f"The sandbox allows writing below {base} and in /tmp only, and there is no network."
