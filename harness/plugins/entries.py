"""Entries of a marketplace: what they say, and how one is added while nothing else in the file changes. `with_entry` is
pure; the others block.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from harness.disk import read_file, replace_file, why
from harness.errors import MarketplaceError
from harness.plugins.marketplace import MAX_MARKETPLACE_BYTES, Authentication, Installation, root_of
from protocol.plugin_files import decoded, decoded_object, kind_of

LOCK_WAIT_S = 10.0
"""How long `add_entry` waits for others that change the same file, in seconds."""


class NewEntry(Struct, frozen=True, kw_only=True):
    """An entry to be written: the plugin `name` in the folder `./plugins/<name>` of the root."""

    name: str
    installation: Installation = Installation.AVAILABLE
    authentication: Authentication = Authentication.ON_INSTALL
    category: str = "Productivity"
    products: tuple[str, ...] | None = None

    @property
    def path(self) -> str:
        """Its folder, relative to the root of the marketplace."""
        return f"./plugins/{self.name}"


class NewMarketplace(Struct, frozen=True):
    """The names that a marketplace file gets that is made for an entry."""

    name: str = "personal"
    display_name: str = "Personal"


PERSONAL = NewMarketplace()


def with_entry(data: bytes | None, entry: NewEntry, *, force: bool = False, new: NewMarketplace = PERSONAL) -> bytes:
    """The content of a marketplace file with one more entry, or with `force` with another first entry of that name.
    Everything else stays what it was, members that nobody knows and the text of numbers included. `data` is None for a
    file that is not there: it gets the names of `new`.

    Raises ValueError for content that no entry can be added to, and for an entry of that name without `force`.
    """
    if data is None:
        head = {"name": new.name, "interface": {"displayName": new.display_name}, "plugins": []}
        data = msgspec.json.encode(head)
    members = _raw_members(data)
    entries = msgspec.json.decode(members.get("plugins", b"[]"), type=list[msgspec.Raw])
    index = next((index for index, each in enumerate(entries) if _name_in(each) == entry.name), None)
    if index is not None and not force:
        raise ValueError(f"it has an entry {entry.name!r} already; --force replaces it")
    written = msgspec.Raw(msgspec.json.encode(_members_of(entry)))
    if index is None:
        entries.append(written)
    else:
        entries[index] = written
    members["plugins"] = msgspec.Raw(msgspec.json.encode(entries))
    return msgspec.json.format(msgspec.json.encode(members), indent=2) + b"\n"


def check_entry(
    file: Path, entry: NewEntry, folder: Path, *, force: bool = False, new: NewMarketplace = PERSONAL
) -> None:
    """Raise MarketplaceError, with the reason, if `add_entry` would, or if the entry would lead to another folder than
    the plugin's.
    """
    wanted = root_of(file) / entry.path
    if os.path.realpath(wanted) != os.path.realpath(folder):
        raise MarketplaceError(
            f"the entry in {file} would lead to {wanted}, and the plugin is {folder}: "
            "the marketplace has to be at ROOT/.agents/plugins/ of a plugin at ROOT/plugins/",
            kind="place",
        )
    try:
        with_entry(current_content(file), entry, force=force, new=new)
    except (OSError, ValueError) as error:
        raise MarketplaceError(f"{file}: {why(error)}", kind="invalid") from None


def add_entry(file: Path, entry: NewEntry, *, force: bool = False, new: NewMarketplace = PERSONAL) -> None:
    """Add an entry to a marketplace file, which is made with its folders if it is not there. Programs that do so at the
    same time wait for each other. Raises MarketplaceError; the file is as it was then.
    """
    from filelock import FileLock, Timeout

    root_of(file)
    target = Path(os.path.realpath(file))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock"), timeout=LOCK_WAIT_S):
            replace_file(target, with_entry(current_content(file), entry, force=force, new=new))
    except Timeout:
        raise MarketplaceError(f"{file}: others have held its lock for {LOCK_WAIT_S:g} s", kind="busy") from None
    except ValueError as error:
        raise MarketplaceError(f"{file}: {error}", kind="invalid") from None
    except OSError as error:
        raise MarketplaceError(f"{file}: {why(error)}", kind="unreadable") from None


def current_content(file: Path) -> bytes | None:
    """What is in a marketplace file; None if it is not there. Raises OSError, and ValueError as `read_file` does."""
    try:
        return read_file(file, MAX_MARKETPLACE_BYTES)
    except FileNotFoundError:
        if os.path.islink(file):
            raise ValueError("it is a link that leads nowhere") from None
        return None


def _raw_members(data: bytes) -> dict[str, msgspec.Raw]:
    """The members of a marketplace as they are written. Raises ValueError for what an entry cannot be added to."""
    values = decoded_object(data)
    if not isinstance(values.get("name"), str) or not values["name"].strip():
        raise ValueError("it has no `name`: give the marketplace one")
    for member, kind in (("interface", dict), ("plugins", list)):
        if member in values and not isinstance(values[member], kind):
            raise ValueError(f"`{member}` has to be {kind_of(kind())}, not {kind_of(values[member])}")
    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    if _written_members(data) != len(members):
        raise ValueError("it has a member twice: remove one of them")
    return members


def _written_members(data: bytes) -> int:
    """How many members the outermost object has, doubles counted."""
    pairs = json.loads(data, object_pairs_hook=len)
    return int(pairs)


def _name_in(entry: msgspec.Raw) -> str | None:
    value = decoded(bytes(entry))
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def _members_of(entry: NewEntry) -> dict[str, Any]:
    policy: dict[str, Any] = {"installation": entry.installation, "authentication": entry.authentication}
    if entry.products is not None:
        policy["products"] = entry.products
    return {
        "name": entry.name,
        "source": {"source": "local", "path": entry.path},
        "policy": policy,
        "category": entry.category,
    }
