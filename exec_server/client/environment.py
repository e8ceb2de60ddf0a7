"""Environment: a machine to run commands on, this one or another, with one interface for both."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from exec_server.client.client import ExecServerClient
from exec_server.client.environments_file import ServerTarget, chosen_target
from exec_server.client.files import AnyPath, Files
from protocol.environment import EnvironmentInfo
from protocol.sandbox import Sandbox

if TYPE_CHECKING:
    from exec_server.client.images import Images, Picture


class Environment:
    """A machine to run commands on. Made by `create`."""

    def __init__(self, client: ExecServerClient) -> None:
        self.processes = client
        """What runs there: `start`, `run`, `list` and the rest of `ExecServerClient`."""
        self.files = Files(client)
        """Its files."""
        self._images: Images | None = None

    @property
    def info(self) -> EnvironmentInfo:
        """What the machine is: its shell, folders and system."""
        return self.processes.environment_info

    async def read_image(self, path: AnyPath, *, sandbox: Sandbox | None = None, original: bool = False) -> Picture:
        """A picture (PNG, JPEG, WebP, GIF) as a model can take it: made smaller to fit 2048 by 768 pixels, in its own
        format (a GIF's first frame as PNG), unless it fits already or `original` is true. `data_url` is what most
        models want.

        Raises ImageError, whose text begins with `unable to locate image at`, `image path … is not a file`, `unable to
        read image at` (also for more than 64 MiB, and where the sandbox says no), or `unable to process image at` (also
        for more than 64 million pixels). Raises ImportError without the extra `image`.
        """
        if self._images is None:
            from exec_server.client.images import Images

            self._images = Images(self.files)
        return await self._images.read(path, sandbox=sandbox, original=original)

    @classmethod
    @asynccontextmanager
    async def create(cls, url: str | None = None, *, name: str | None = None) -> AsyncIterator[Environment]:
        """An environment that lives as long as the block: `async with Environment.create() as environment:`.

        `url` is `ws://HOST:PORT`, or `local` for a server in this process. Without one, `name` is looked up in the
        file of environments. Without either it is what `EXEC_SERVER_URL` says, else what that file says is the
        default, else local. Raises EnvironmentsFileError for a file or a name that is of no use, ValueError for a bad
        URL, and what connecting raises.
        """
        target = ServerTarget(url=url) if url is not None else chosen_target(name)
        async with _connected(target) as client:
            yield cls(client)


def _connected(target: ServerTarget) -> AbstractAsyncContextManager[ExecServerClient]:
    if target.command is not None:
        from exec_server.client.local_server import spawn_local_server

        return spawn_local_server(target.command)
    if target.url in (None, "local"):
        from exec_server.client.in_process import connect_in_process

        return connect_in_process()
    from exec_server.client.connect import connect_websocket

    token = None if target.token_file is None else Path(os.path.expanduser(target.token_file)).read_text().strip()
    assert target.url is not None
    return connect_websocket(target.url, token=token)
