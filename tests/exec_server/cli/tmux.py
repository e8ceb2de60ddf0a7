"""A terminal for a person who is none: keys go in, what is on the screen comes out."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support.client import PATIENCE_S
from tests.support.program import ROOT


class Tmux:
    """A tmux server of its own with one window, in which a command runs."""

    def __init__(self, folder: Path, environ: Mapping[str, str], cols: int = 80, rows: int = 24) -> None:
        if shutil.which("tmux") is None:
            raise AssertionError("these tests need tmux: install it, e.g. `apt-get install tmux`")
        self._socket = folder / "tmux"
        self._environ = {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}
        self._size = ["-x", str(cols), "-y", str(rows)]

    def __enter__(self) -> Tmux:
        self._tmux("-f", "/dev/null", "new-session", "-d", *self._size, "cat")
        self._tmux("set-option", "-g", "default-terminal", "screen")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tmux("kill-server", check=False)

    def run(self, argv: Sequence[str], then: str = "") -> None:
        """Run a command in the window, in place of what is there, and a line of shell after it; the screen stays."""
        line = f"trap : INT; {shlex.join(argv)}; {then or 'true'}; exec sleep 1000"
        self._tmux("respawn-pane", "-k", "-c", str(ROOT), "sh", "-c", line)

    def keys(self, *keys: str) -> None:
        """Type; names such as `Enter` and `C-c` are those of tmux(1)."""
        self._tmux("send-keys", *keys)

    def text(self, text: str) -> None:
        """Type as it is."""
        self._tmux("send-keys", "-l", text)

    def resize(self, cols: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(cols), "-y", str(rows))

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def value(self, name: str) -> str:
        """A variable of tmux(1), such as `alternate_on` and `pane_dead`."""
        return self._tmux("display-message", "-p", "#{" + name + "}").strip()

    def shows(self, text: str) -> str:
        """Wait until the screen has the text; the screen."""
        return self.until(lambda screen: text in screen, f"{text!r} on the screen")

    def until(self, holds: Callable[[str], bool], what: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not holds(screen := self.screen()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {what}; the screen:\n{screen}")
            time.sleep(0.02)  # nothing tells that a screen has changed
        return screen

    def _tmux(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *argv],
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0 or not check, f"tmux {argv}: {done.stderr}"
        return done.stdout
