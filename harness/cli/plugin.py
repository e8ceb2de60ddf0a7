"""`exec-harness plugin`: make a plugin, check one, list those that are offered."""

from __future__ import annotations

import json as json_module
import os
from pathlib import Path
from typing import Annotated, Any

import cyclopts
from cyclopts import Parameter

from exec_server.cli.table import table
from exec_server.printable import printable
from harness.cli.ending import FAILED, Flag, Json, tell
from harness.plugins.marketplace import Authentication, Entry, Installation, Marketplace, discover
from harness.plugins.scaffold import Parts, Policy
from harness.plugins.scaffold import create as create_plugin

InstallPolicy = Annotated[Installation, Parameter(name="--install-policy", name_transform=str)]
AuthPolicy = Annotated[Authentication, Parameter(name="--auth-policy", name_transform=str)]

app = cyclopts.App(name="plugin", help="Make, check and list plugins.", result_action="return_value")


@app.command
def create(
    name: str,
    /,
    *,
    path: Path | None = None,
    with_skills: Annotated[bool, Flag] = False,
    with_hooks: Annotated[bool, Flag] = False,
    with_scripts: Annotated[bool, Flag] = False,
    with_assets: Annotated[bool, Flag] = False,
    with_mcp: Annotated[bool, Flag] = False,
    with_apps: Annotated[bool, Flag] = False,
    with_marketplace: Annotated[bool, Flag] = False,
    marketplace_path: Path | None = None,
    install_policy: InstallPolicy = Installation.AVAILABLE,
    auth_policy: AuthPolicy = Authentication.ON_INSTALL,
    category: str = "Productivity",
    placeholders: Annotated[bool, Flag] = False,
    force: Annotated[bool, Flag] = False,
    json: Json = False,
) -> int:
    """Make a plugin: a folder with a manifest, and an entry in a marketplace if that is wanted. It is made whole or not
    at all.

    Parameters
    ----------
    name
        What it is called; small letters, digits and `-` are made of it.
    path
        The folder that will hold the plugin's own; `./plugins` without it.
    with_skills
        Make an empty folder `skills`.
    with_hooks
        Make an empty folder `hooks`.
    with_scripts
        Make an empty folder `scripts`.
    with_assets
        Make an empty folder `assets`.
    with_mcp
        Make `.mcp.json`, for MCP servers.
    with_apps
        Make `.app.json`, for apps.
    with_marketplace
        Add an entry to the marketplace, which is made if it is not there.
    marketplace_path
        The marketplace's file; `./.agents/plugins/marketplace.json` without it.
    install_policy
        Of the entry: whether it may be installed.
    auth_policy
        Of the entry: when its apps ask for an account.
    category
        Of the entry and the manifest.
    placeholders
        Write a manifest with every member there is, to be filled in.
    force
        Replace manifest, stubs and entry of a plugin that is there.
    """
    parts = Parts(
        skills=with_skills,
        hooks=with_hooks,
        scripts=with_scripts,
        assets=with_assets,
        mcp=with_mcp,
        apps=with_apps,
        placeholders=placeholders,
    )
    policy = None
    if with_marketplace:
        policy = Policy(
            file=marketplace_path, installation=install_policy, authentication=auth_policy, category=category
        )
    made = create_plugin(name, parts, folder=path, marketplace=policy, category=category, force=force)
    if made.note is not None:
        tell(made.note)
    paths = {"plugin": made.folder, "manifest": made.manifest, "marketplace": made.marketplace}
    if json:
        print(json_module.dumps({"name": made.name, **{key: each and str(each) for key, each in paths.items()}}))
    else:
        for key, each in paths.items():
            if each is not None:
                print(f"{key}: {printable(str(each))}")
    return 0


@app.command
def validate(folder: Path, /, *, json: Json = False) -> int:
    """Say what is wrong with a plugin's folder, each fault with its member; status 1 if anything is."""
    from harness.plugins.validation import faults_of

    faults = faults_of(folder)
    if json:
        print(json_module.dumps([{"member": each.member, "message": each.text} for each in faults], indent=2))
    else:
        for each in faults:
            print(printable(f"{each.member}: {each.text}"))
        if not faults:
            print("ok")
    return FAILED if faults else 0


@app.command(name="list")
def list_(
    roots: Annotated[tuple[Path, ...], Parameter(name="--root", negative=())] = (),
    *,
    json: Json = False,
) -> int:
    """List the plugins that marketplaces offer: that in the user's home, then that of this folder or its repository.

    Parameters
    ----------
    roots
        Look in these folders in place of this one.
    """
    found = discover(Path.home(), roots or (Path.cwd(),))
    for warning in found.warnings:
        tell(warning)
    offered = [(marketplace, entry) for marketplace in found.marketplaces for entry in marketplace.entries]
    if json:
        print(json_module.dumps([members(*each) for each in offered], indent=2))
        return 0
    width = os.get_terminal_size(1).columns if os.isatty(1) else None
    rows = [row(*each) for each in offered]
    print(table(("PLUGIN", "INSTALLATION", "CATEGORY", "FOLDER"), rows, width), end="")
    return 0


def members(marketplace: Marketplace, entry: Entry) -> dict[str, Any]:
    """What a program is told of an entry."""
    return {
        "name": entry.name,
        "marketplace": marketplace.name,
        "marketplacePath": str(marketplace.file),
        "source": entry.source,
        "folder": None if entry.folder is None else str(entry.folder),
        "installation": entry.installation,
        "authentication": entry.authentication,
        "products": entry.products,
        "category": entry.category,
    }


def row(marketplace: Marketplace, entry: Entry) -> tuple[str, ...]:
    """What a person is told of an entry."""
    where = f"(not supported: {entry.source})" if entry.folder is None else str(entry.folder)
    return f"{entry.name}@{marketplace.name}", entry.installation, entry.category or "", where
