"""What a sandbox is refused with."""

from __future__ import annotations

from protocol.errors import InvalidParams


class SandboxUnsupported(InvalidParams):
    """The sandbox cannot be enforced here, or not as it was asked for; nothing has been run."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"sandboxing is not supported by this executor: {reason}",
            {"kind": "sandboxUnsupported"},
        )
        self.reason = reason
