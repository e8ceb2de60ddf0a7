"""Thespian's loaded sources: zip files of actor code, known by their hash. Imported when first used."""

from __future__ import annotations

import functools
import hashlib
import logging
import sys
from collections.abc import Callable
from typing import Any

from thespian.actors import ActorAddress, InvalidActorSourceHash, LoadedSource, UnloadedSource, ValidateSource
from thespian.system.sourceLoader import SourceHashFinder, loadModuleFromHashSource

log = logging.getLogger("exec_server.engine")


class Sources:
    """The loaded sources of one system and the actors that want to hear of them.

    A source that is unloaded serves no new actors at once; its modules leave the process when the last actor
    made from it is gone, so that a living one can still import what it needs.
    """

    def __init__(self, tell: Callable[[ActorAddress, Any], object], forget_classes: Callable[[], None]) -> None:
        """`tell(address, message)` sends in the name of the system; `forget_classes()` lets go of all actor classes."""
        self._tell = tell
        self._forget_classes = forget_classes
        self._zips: dict[str, Any] = {}
        self._info: dict[str, str] = {}
        self._users: dict[str, int] = {}
        self._listeners: list[ActorAddress] = []
        self.authority: ActorAddress | None = None

    def load(self, source: Any) -> str:
        """Read a source (file name or open binary file), have the authority validate it; its hash.

        Without an authority nothing is loaded. OSError if the file cannot be read.
        """
        name = str(getattr(source, "name", source))
        if hasattr(source, "read"):
            with source:
                data = source.read()
        else:
            with open(source, "rb") as file:
                data = file.read()
        digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
        self._info[digest] = name
        if self.authority is not None:
            self._tell(self.authority, ValidateSource(digest, data, name))
        return digest

    def validated(self, digest: str, data: Any) -> None:
        """Take the authority's verdict: `data` is the zip, or None if it refuses."""
        if data is None:
            log.warning("the source authority refused source %s", digest)
            return
        try:
            SourceHashFinder(digest, lambda whole: whole, data).getZipNames()
        except Exception as error:
            log.error("source %s is corrupt: %s", digest, error)
            return
        self._zips[digest] = data
        for listener in self._listeners:
            self._tell(listener, LoadedSource(digest, self._info.get(digest, "")))

    def unload(self, digest: str) -> None:
        """Make no new actors from this source; unknown hashes are ignored."""
        if self._zips.pop(digest, None) is None:
            return
        for listener in self._listeners:
            self._tell(listener, UnloadedSource(digest, self._info.get(digest, "")))
        if not self._users.get(digest):
            self._remove_modules(digest)

    def unload_all(self) -> None:
        """Take every source out of the process, at the end of the system."""
        digests = {*self._zips, *self._users}
        self._listeners.clear()
        self._zips.clear()
        self._users.clear()
        for digest in digests:
            self._remove_modules(digest)

    def loader(self, digest: str) -> Callable[[str, str], type]:
        """Finds a class of this source by module and name. InvalidActorSourceHash if it is not loaded."""
        if digest not in self._zips:
            raise InvalidActorSourceHash(digest)
        return functools.partial(loadModuleFromHashSource, digest, self._zips)

    def notify(self, address: ActorAddress, enable: bool) -> None:
        """Whether the actor is told of loads and unloads; it hears at once of what is loaded."""
        self._listeners = [other for other in self._listeners if other != address]
        if enable:
            self._listeners.append(address)
            for digest in self._zips:
                self._tell(address, LoadedSource(digest, self._info.get(digest, "")))

    def used(self, digest: str) -> None:
        """Count an actor made from this source."""
        self._users[digest] = self._users.get(digest, 0) + 1

    def forget(self, address: ActorAddress, digest: str | None) -> None:
        """Count out an actor that is gone, made from source `digest` if not None."""
        if self._listeners:
            self._listeners = [other for other in self._listeners if other != address]
        if self.authority is not None and self.authority == address:
            self.authority = None
        if digest is None or digest not in self._users:
            return
        self._users[digest] -= 1
        if not self._users[digest]:
            del self._users[digest]
            if digest not in self._zips:
                self._remove_modules(digest)

    def _remove_modules(self, digest: str) -> None:
        self._forget_classes()  # classes of the source among them
        for finder in [f for f in sys.meta_path if getattr(f, "srcHash", None) == digest]:
            root = finder.hashRoot()  # type: ignore[attr-defined]
            for name in [name for name in sys.modules if name.startswith(root)]:
                del sys.modules[name]
            sys.meta_path.remove(finder)
