"""What a bridge tells of its requests to whoever traces them."""

from __future__ import annotations

from typing import Any, Protocol

from protocol.envelope import Trace


class Tracer(Protocol):
    """Called on the loop, twice a request. Neither call blocks."""

    def begin(self, method: str, context: Trace | None) -> Any:
        """A request has come, within this trace of its client; what is returned is given to `end`."""

    def end(self, span: Any, error: str | None) -> None:
        """It is answered; `error` None: with a result, else what was wrong, by `data.kind` or code."""
