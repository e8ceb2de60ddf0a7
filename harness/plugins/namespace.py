"""Namespaces: the plugin that a path belongs to, which names its skills `plugin:skill`."""

from __future__ import annotations

import posixpath

from harness.plugins.manifest import read_manifest
from harness.reader import Reader
from protocol.plugin_files import namespace


class Namespaces:
    """Finds namespaces, and remembers those of folders: each is looked at once. For one load; make a new one for the
    next. `warnings` say which manifests did not count.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._by_folder: dict[str, str | None] = {}
        self.warnings: list[str] = []

    async def namespace(self, path: str, stop_at: str) -> str | None:
        """The name of the nearest plugin that `path` is or is in, no higher than the folder `stop_at`; None if there is
        none. Both are absolute; links in them are not resolved. Raises what the reader raises when the machine cannot
        be reached.
        """
        stop = posixpath.normpath(stop_at)
        folder = posixpath.normpath(path)
        while folder == stop or folder.startswith(stop.rstrip("/") + "/"):
            name = await self._name_of(folder)
            if name is not None:
                return name
            if folder == stop:
                break
            folder = posixpath.dirname(folder)
        return None

    async def _name_of(self, folder: str) -> str | None:
        if folder not in self._by_folder:
            self._by_folder[folder] = await self._read_name(folder)
        return self._by_folder[folder]

    async def _read_name(self, folder: str) -> str | None:
        found = await read_manifest(self._reader, folder)
        self.warnings += found.warnings
        if found.data is None:
            return None
        try:
            return namespace(found.data, posixpath.basename(folder))
        except ValueError as error:
            self.warnings.append(f"{found.path}: {error}; passed over")
            return None
