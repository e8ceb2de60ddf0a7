"""Paths as models give them, and the root that file tools do not leave.

The root keeps what a model does by mistake in its place. It is no wall: a command may make a link at any moment, and is
not held by it. A sandbox is.
"""

from __future__ import annotations

import posixpath

from exec_server.client.environment import Environment
from exec_server.mcp.errors import ToolError
from exec_server.mcp.policy import Policy
from protocol.errors import ExecServerError, InvalidParams, InvalidRequest, NotFound
from protocol.paths import native_path
from protocol.sandbox import Sandbox

MAX_PATH = 4096
"""The longest path, in characters (PATH_MAX of Linux)."""


def absolute(path: str, base: str) -> str:
    """The path without `.` and `..`, from `base` on if it is relative. Raises ToolError for what is none."""
    if not path or "\0" in path:
        raise ToolError(f"{path!r} is no path: it must be non-empty and must not contain NUL.")
    if len(path) > MAX_PATH:
        raise ToolError(f"The path is {len(path)} characters long; at most {MAX_PATH} are possible.")
    if path.startswith("file:"):
        try:
            path = native_path(path)
        except InvalidParams as error:
            raise ToolError(f"{error.message}. Give a plain path.") from None
    normal = posixpath.normpath(posixpath.join(base, path))
    return "/" + normal.lstrip("/")


def is_within(path: str, root: str) -> bool:
    """Whether a path is the root or below it; both absolute and without links."""
    return path == root or path.startswith(root.rstrip("/") + "/")


class Paths:
    """The paths of one session on one machine."""

    def __init__(self, environment: Environment, policy: Policy) -> None:
        self._files = environment.files
        self._policy = policy
        self.base = policy.base or policy.root or native_path(environment.info.cwd or "/")
        """The folder that relative paths begin at."""
        self.sandbox: Sandbox | None = policy.sandbox(self.base)
        self._root: str | None = None

    async def of(self, path: str) -> str:
        """The absolute path that is meant. Where there is a root, it has no links, and is below the root.

        Raises ToolError for a path that leads out of the root, and what `Files.resolve` raises.
        """
        plain = absolute(path, self.base)
        if self._policy.root is None:
            return plain
        if self._root is None:
            self._root = await self._files.resolve(self._policy.root, sandbox=self.sandbox)
        if not (is_within(plain, self._policy.root) or is_within(plain, self._root)):
            raise self._outside(path)
        real = await self._resolved(plain)
        if not is_within(real, self._root):
            raise self._outside(path)
        return real

    async def _resolved(self, plain: str) -> str:
        """Without links; of what is not there yet, the last folder that is decides."""
        missing: list[str] = []
        at = plain
        while True:
            try:
                return posixpath.join(await self._files.resolve(at, sandbox=self.sandbox), *reversed(missing))
            except NotFound:
                if await self._is_link(at):
                    raise ToolError(f"{at} is a link that leads nowhere; it is not followed.") from None
                if at == "/":
                    raise
                at, _, name = at.rpartition("/")
                at = at or "/"
                missing.append(name)

    async def _is_link(self, path: str) -> bool:
        try:
            await self._files.metadata(path, follow_symlinks=False, sandbox=self.sandbox)
        except InvalidRequest as error:
            return (error.data or {}).get("kind") == "symbolicLink"
        except ExecServerError:
            return False
        return False

    def _outside(self, path: str) -> ToolError:
        return ToolError(f"{path} is outside of {self._policy.root}, which file tools do not leave.")
