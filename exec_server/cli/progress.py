"""How far a copy is, on a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from exec_server.printable import printable


class Progress(Protocol):
    """Who is told how far it is, in bytes."""

    def total(self, size: int) -> None: ...
    def file(self, name: str) -> None: ...
    def advance(self, size: int) -> None: ...


class Silent:
    """Shows nothing."""

    def total(self, size: int) -> None:
        pass

    def file(self, name: str) -> None:
        pass

    def advance(self, size: int) -> None:
        pass


@contextmanager
def progress(show: bool) -> Iterator[Progress]:
    """A bar on stderr while the block lasts."""
    if not show:
        yield Silent()
        return
    # Loaded for this alone: it takes as long as a small copy.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Bars(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=None)

        class Shown:
            def total(self, size: int) -> None:
                bars.update(task, total=size)

            def file(self, name: str) -> None:
                bars.update(task, description=printable(os.path.basename(name)))

            def advance(self, size: int) -> None:
                bars.advance(task, size)

        yield Shown()
