"""What the parts of a ConnectionActor share: its session, and who speaks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.base.messages import Address, Audited, AuditStart, BridgeAttached, OpenSession
from actors.base.settings import Settings


@dataclass(slots=True)
class SessionFacts:
    """Facts of one session. Only its ConnectionActor changes them."""

    opened: OpenSession
    router: Address
    send: Callable[[Address, Any], None]
    attached: BridgeAttached | None = None
    """The bridge that speaks for the session now."""
    draining: bool = False
    """Nothing new is begun."""

    @property
    def session_id(self) -> str:
        return self.opened.session_id

    @property
    def settings(self) -> Settings:
        return self.opened.settings

    @property
    def client(self) -> tuple[str, str]:
        """Peer and name of the client that is attached."""
        return ("", "") if self.attached is None else self.attached.client

    @property
    def is_audited(self) -> bool:
        """Whether there is an audit log."""
        return self.opened.audit is not None

    def audit_start(self, token: int, line: Audited, process_id: str) -> None:
        """Have the audit log tell of a start before it is made; it answers with StartAudited."""
        self.send(self.opened.audit, AuditStart(token, process_id, line))

    def audit(self, entry: Callable[..., Audited], *facts: Any) -> None:
        """Have the audit log tell `entry` of these facts, if there is one."""
        if self.opened.audit is not None:
            self.send(self.opened.audit, entry(self.session_id, *facts))
