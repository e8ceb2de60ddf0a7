"""`exec-harness marketplace`: change what a marketplace offers."""

from __future__ import annotations

import asyncio
import json as json_module
import os
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter

from exec_server.printable import printable
from harness.cli.ending import Flag, Json
from harness.cli.plugin import AuthPolicy, InstallPolicy
from harness.errors import PluginError
from harness.plugins.entries import NewEntry, add_entry, check_entry
from harness.plugins.manifest import load_manifest
from harness.plugins.marketplace import PLACE, Authentication, Installation
from harness.reader import LocalReader

app = cyclopts.App(name="marketplace", help="Change what a marketplace offers.", result_action="return_value")


@app.command
def add(
    folder: Path,
    /,
    *,
    file: Annotated[Path | None, Parameter(name="--marketplace-path")] = None,
    install_policy: InstallPolicy = Installation.AVAILABLE,
    auth_policy: AuthPolicy = Authentication.ON_INSTALL,
    category: str = "Productivity",
    products: Annotated[tuple[str, ...], Parameter(name="--product", negative=())] = (),
    force: Annotated[bool, Flag] = False,
    json: Json = False,
) -> int:
    """Offer a plugin that is there: `ROOT/plugins/NAME`, in the marketplace `ROOT/.agents/plugins/marketplace.json`.

    Parameters
    ----------
    folder
        The plugin's folder.
    file
        The marketplace's file, which is made if it is not there; without it that beside the plugin's `plugins` folder.
    install_policy
        Whether it may be installed.
    auth_policy
        When its apps ask for an account.
    category
        The category that it is shown in.
    products
        Offer it in these products only; may be given more than once.
    force
        Replace the entry of the same name.
    """
    plugin = Path(os.path.abspath(folder.expanduser()))
    loaded = asyncio.run(load_manifest(LocalReader(), str(plugin)))
    if loaded.manifest is None:
        raise PluginError("; ".join(loaded.warnings) or f"{plugin} is no plugin: it has no .codex-plugin/plugin.json")
    entry = NewEntry(
        name=loaded.manifest.name,
        installation=install_policy,
        authentication=auth_policy,
        category=category,
        products=products or None,
    )
    target = Path(os.path.abspath((file or plugin.parent.parent / PLACE).expanduser()))
    check_entry(target, entry, plugin, force=force)
    add_entry(target, entry, force=force)
    if json:
        print(json_module.dumps({"name": entry.name, "plugin": str(plugin), "marketplace": str(target)}))
    else:
        print(f"marketplace: {printable(str(target))}")
    return 0
