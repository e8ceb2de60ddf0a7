"""`marketplace.json`: which plugins a repository or a user offers, and where they are.

It is at `<root>/.agents/plugins/marketplace.json`, and the paths in it are relative to `root`. `parse_marketplace` and
`resolve` are pure; the others block: they are about the user's own disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from harness.disk import read_file, why
from harness.errors import MarketplaceError, PluginError
from harness.plugins.names import PluginId, parse_plugin_id
from protocol.plugin_files import decoded_object, kind_of, quoted, relative_path

PLACE = Path(".agents/plugins/marketplace.json")
MAX_MARKETPLACE_BYTES = 4 << 20
MAX_ENTRIES = 10_000
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


def parse_marketplace(data: bytes, file: Path) -> Marketplace:
    """The marketplace in a file. Raises MarketplaceError if it is none; an entry that is of no use is left out with a
    warning that names its index.
    """
    root = root_of(file)
    try:
        values = decoded_object(data)
        name = values.get("name")
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"`name` has to be a string that is not blank, not {quoted(name)}")
        plugins = values.get("plugins", [])
        if not isinstance(plugins, list):
            raise ValueError(f"`plugins` has to be a list, not {kind_of(plugins)}")
    except ValueError as error:
        raise MarketplaceError(f"{file}: {error}", kind="invalid") from None
    warnings: list[str] = []
    entries: list[Entry] = []
    seen: set[str] = set()
    if len(plugins) > MAX_ENTRIES:
        warnings.append(f"{file}: it has {len(plugins)} entries; only the first {MAX_ENTRIES} count")
    for index, value in enumerate(plugins[:MAX_ENTRIES]):
        where = f"{file}: plugins[{index}]"
        try:
            entry = _entry(value, root, where, warnings)
        except ValueError as error:
            warnings.append(f"{where}: {error}; left out")
            continue
        if entry.name in seen:
            warnings.append(
                f"{where}: an entry before it has the name {quoted(entry.name)}, too, and is the one that counts"
            )
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
    of = f"of the marketplace {quoted(marketplace.name)}"
    entry = next((each for each in marketplace.entries if each.name == name), None)
    if entry is None:
        raise MarketplaceError(f"there is no plugin {quoted(name)} {of}", "unknownPlugin")
    if entry.installation is Installation.NOT_AVAILABLE:
        raise MarketplaceError(f"the plugin {quoted(name)} {of} is not available", "notAvailable")
    try:
        parse_plugin_id(str(PluginId(entry.name, marketplace.name)))
    except PluginError as error:
        raise MarketplaceError(str(error), "invalidId") from None
    if entry.folder is None:
        raise MarketplaceError(
            f"the plugin {quoted(name)} {of} is from {quoted(entry.source)}; only local folders are supported",
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
        first = next((each for each in marketplaces if each.name == marketplace.name), None)
        if first is not None:
            warnings.append(
                f"{file}: its name {quoted(marketplace.name)} is that of {first.file}: ids mean the first one"
            )
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
        raise ValueError(f"`source.path`: {error}, not {quoted(text)}") from None


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
        raise ValueError(f"`policy.{name}` has to be one of {', '.join(values)}, not {quoted(value)}") from None


def _string(value: dict[str, Any], name: str, shown: str | None = None) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"`{shown or name}` has to be a string that is not blank, not {quoted(text)}")
    return text


def _display_name(values: dict[str, Any], file: Path, warnings: list[str]) -> str | None:
    interface = values.get("interface")
    shown = interface.get("displayName") if isinstance(interface, dict) else None
    if (interface is not None and not isinstance(interface, dict)) or not isinstance(shown, str | None):
        warnings.append(f"{file}: `interface.displayName` has to be a string; left out")
        return None
    return shown if shown and shown.strip() else None
