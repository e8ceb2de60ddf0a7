"""`marketplace.json`: which plugins a repository or a user offers, where they are, and how an entry is added.

It is at `<root>/.agents/plugins/marketplace.json`, and the paths in it are relative to `root`. `parse_marketplace`,
`resolve` and `with_entry` are pure; the others block: they are about the user's own disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from harness.disk import read_file, replace_file, why
from harness.errors import MarketplaceError, PluginError
from harness.plugins.names import PluginId, parse_plugin_id
from protocol.plugin_files import decoded, decoded_object, kind_of, relative_path

PLACE = Path(".agents/plugins/marketplace.json")
MAX_MARKETPLACE_BYTES = 4 << 20
LOCK_WAIT_S = 10.0
"""How long `add_entry` waits for others that change the same file, in seconds."""
_OLD_POLICY = {"installation": "installPolicy", "authentication": "authPolicy"}


class Installation(StrEnum):
    """Whether a plugin may be installed."""

    NOT_AVAILABLE = "NOT_AVAILABLE"
    AVAILABLE = "AVAILABLE"
    INSTALLED_BY_DEFAULT = "INSTALLED_BY_DEFAULT"


class Authentication(StrEnum):
    """When a plugin's apps ask for an account."""

    ON_INSTALL = "ON_INSTALL"
    ON_USE = "ON_USE"


class Entry(Struct, frozen=True, kw_only=True):
    """A plugin that a marketplace offers. `folder` is its absolute path; None for a source that is not supported."""

    name: str
    source: str
    """`local`, or the kind of source that is not supported."""
    folder: Path | None
    installation: Installation = Installation.AVAILABLE
    authentication: Authentication = Authentication.ON_INSTALL
    products: tuple[str, ...] | None = None
    category: str | None = None


class Marketplace(Struct, frozen=True, kw_only=True):
    """A marketplace file. `entries` are in the order in which they are shown; `warnings` say what was left out."""

    file: Path
    name: str
    display_name: str | None
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...] = ()


class Discovered(NamedTuple):
    """The marketplaces that were found, and why others could not be read."""

    marketplaces: tuple[Marketplace, ...]
    warnings: tuple[str, ...]


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


def root_of(file: Path) -> Path:
    """The folder that the paths of a marketplace file are relative to. Raises MarketplaceError for a file that is
    elsewhere than at PLACE, where nothing looks for it.
    """
    absolute = Path(os.path.abspath(file))
    if absolute.parts[-3:] != PLACE.parts:
        raise MarketplaceError(
            f"{file} is no place for a marketplace: it has to be ROOT/{PLACE}, as its paths are relative to ROOT",
            kind="place",
        )
    return absolute.parents[2]


PERSONAL = NewMarketplace()


# -- reading ------------------------------------------------------------------------------------------------------


def parse_marketplace(data: bytes, file: Path) -> Marketplace:
    """The marketplace in a file. Raises MarketplaceError if it is none; an entry that is of no use is left out with a
    warning that names its index.
    """
    root = root_of(file)
    try:
        values = decoded_object(data)
        name = values.get("name")
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"`name` has to be a string that is not blank, not {name!r}")
        plugins = values.get("plugins", [])
        if not isinstance(plugins, list):
            raise ValueError(f"`plugins` has to be a list, not {kind_of(plugins)}")
    except ValueError as error:
        raise MarketplaceError(f"{file}: {error}", kind="invalid") from None
    warnings: list[str] = []
    entries: list[Entry] = []
    seen: set[str] = set()
    for index, value in enumerate(plugins):
        where = f"{file}: plugins[{index}]"
        try:
            entry = _entry(value, root, where, warnings)
        except ValueError as error:
            warnings.append(f"{where}: {error}; left out")
            continue
        if entry.name in seen:
            warnings.append(f"{where}: an entry before it has the name {entry.name!r}, too, and is the one that counts")
        seen.add(entry.name)
        entries.append(entry)
    return Marketplace(
        file=file,
        name=name,
        display_name=_display_name(values, file, warnings),
        entries=tuple(entries),
        warnings=tuple(warnings),
    )


def load_marketplace(file: Path) -> Marketplace:
    """The same, of a file on the disk. Raises MarketplaceError for what cannot be read, too."""
    root_of(file)
    try:
        data = read_file(file, MAX_MARKETPLACE_BYTES)
    except (OSError, ValueError) as error:
        raise MarketplaceError(f"{file}: {why(error)}", kind="unreadable") from None
    return parse_marketplace(data, file)


def resolve(marketplace: Marketplace, name: str) -> Entry:
    """The first entry of a name. Raises MarketplaceError of kind `unknownPlugin`, `notAvailable`, `invalidId`, or
    `unsupportedSource`.
    """
    entry = next((each for each in marketplace.entries if each.name == name), None)
    if entry is None:
        raise MarketplaceError(f"there is no plugin {name!r} in the marketplace {marketplace.name!r}", "unknownPlugin")
    if entry.installation is Installation.NOT_AVAILABLE:
        raise MarketplaceError(f"the plugin {name!r} of {marketplace.name!r} is not available", "notAvailable")
    try:
        parse_plugin_id(str(PluginId(entry.name, marketplace.name)))
    except PluginError as error:
        raise MarketplaceError(str(error), "invalidId") from None
    if entry.folder is None:
        raise MarketplaceError(
            f"the plugin {name!r} of {marketplace.name!r} is from {entry.source!r}; only local folders are supported",
            "unsupportedSource",
        )
    return entry


def discover(home: Path | None, roots: Iterable[Path] = ()) -> Discovered:
    """The marketplaces of a user and of folders: that of `home` first, then for each root its own, else that of the
    repository around it; each file once. What cannot be read is a warning.
    """
    marketplaces: list[Marketplace] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for file in _candidates(home, roots):
        real = os.path.realpath(file)
        if real in seen:
            continue
        seen.add(real)
        try:
            marketplace = load_marketplace(file)
        except MarketplaceError as error:
            warnings.append(f"{error}; skipped")
            continue
        marketplaces.append(marketplace)
        warnings += marketplace.warnings
    return Discovered(tuple(marketplaces), tuple(warnings))


def _candidates(home: Path | None, roots: Iterable[Path]) -> Iterable[Path]:
    if home is not None and os.path.lexists(home / PLACE):
        yield home / PLACE
    for root in roots:
        folder = Path(os.path.abspath(root))
        if os.path.lexists(folder / PLACE):
            yield folder / PLACE
            continue
        repository = next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)
        if repository is not None and os.path.lexists(repository / PLACE):
            yield repository / PLACE


def _entry(value: Any, root: Path, where: str, warnings: list[str]) -> Entry:
    if not isinstance(value, dict):
        raise ValueError(f"an entry has to be an object, not {kind_of(value)}")
    name = _string(value, "name")
    source, path = _source(value.get("source"))
    policy = _policy(value, where, warnings)
    products = policy.get("products")
    if products is not None and not (isinstance(products, list) and all(isinstance(each, str) for each in products)):
        raise ValueError("`policy.products` has to be a list of strings")
    category = value.get("category")
    if category is not None and not isinstance(category, str):
        raise ValueError(f"`category` has to be a string, not {kind_of(category)}")
    return Entry(
        name=name,
        source=source,
        folder=None if path is None else root / path,
        installation=_one_of(Installation, policy, "installation", Installation.AVAILABLE),
        authentication=_one_of(Authentication, policy, "authentication", Authentication.ON_INSTALL),
        products=None if products is None else tuple(products),
        category=category if category and category.strip() else None,
    )


def _source(value: Any) -> tuple[str, str | None]:
    """The kind of a source, and the path of a local one."""
    if isinstance(value, str):
        return "local", _local(value)
    if not isinstance(value, dict):
        raise ValueError(f"`source` has to be an object, not {kind_of(value)}")
    kind = _string(value, "source", "source.source")
    if kind != "local":
        return kind, None
    return kind, _local(_string(value, "path", "source.path"))


def _local(text: str) -> str:
    try:
        return relative_path(text)
    except ValueError as error:
        raise ValueError(f"`source.path`: {error}, not {text!r}") from None


def _policy(value: dict[str, Any], where: str, warnings: list[str]) -> dict[str, Any]:
    policy = value.get("policy")
    if policy is None:
        old = {new: value[name] for new, name in _OLD_POLICY.items() if name in value}
        if old:
            names = ", ".join(f"`{_OLD_POLICY[new]}`" for new in old)
            warnings.append(f"{where}: {names} belongs into `policy`; taken all the same")
        return old
    if not isinstance(policy, dict):
        raise ValueError(f"`policy` has to be an object, not {kind_of(policy)}")
    return policy


def _one_of(values: type[StrEnum], policy: dict[str, Any], name: str, default: Any) -> Any:
    value = policy.get(name)
    if value is None:
        return default
    try:
        return values(value)
    except ValueError:
        raise ValueError(f"`policy.{name}` has to be one of {', '.join(values)}, not {value!r}") from None


def _string(value: dict[str, Any], name: str, shown: str | None = None) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"`{shown or name}` has to be a string that is not blank, not {text!r}")
    return text


def _display_name(values: dict[str, Any], file: Path, warnings: list[str]) -> str | None:
    interface = values.get("interface")
    shown = interface.get("displayName") if isinstance(interface, dict) else None
    if (interface is not None and not isinstance(interface, dict)) or not isinstance(shown, str | None):
        warnings.append(f"{file}: `interface.displayName` has to be a string; left out")
        return None
    return shown if shown and shown.strip() else None


# -- writing ------------------------------------------------------------------------------------------------------


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
    import json

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
