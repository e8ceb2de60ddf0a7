"""Copy of a command's output on our own, whatever that is."""

from __future__ import annotations

import errno
from collections.abc import Callable

from exec_server.cli.exit_status import NOT_RUN
from exec_server.cli.std_streams import DescriptorWriter
from exec_server.client.events import Output

_NAMES = {1: "standard output", 2: "standard error"}


class OutputCopy:
    """Stdout on ours, stderr on ours. One that is closed takes nothing, as with `>/dev/null`. One that is broken
    otherwise, as a full disk, is told of once; the command goes on, and its status stays ours.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._writer = DescriptorWriter()
        self._shut: set[int] = set()
        self._lost = False

    async def show(self, output: Output) -> None:
        """Write it. Raises BrokenPipeError if nobody reads stdout any more."""
        fd = 2 if output.stream == "stderr" else 1
        if fd in self._shut:
            return
        try:
            await self._writer.write(fd, output.data)
        except OSError as error:
            if isinstance(error, BrokenPipeError) and fd == 1:
                raise
            self._shut.add(fd)
            if error.errno in (errno.EBADF, errno.EPIPE):
                return
            self._lost = True
            self._tell(f"cannot write to {_NAMES[fd]}: {error.strerror}; the command goes on, without that output")

    def status(self, of_command: int) -> int:
        """The exit status: that of the command, but for a success of which output is lost."""
        if not self._lost or of_command:
            return of_command
        self._tell("the command has ended with status 0, but its output is not whole")
        return NOT_RUN
