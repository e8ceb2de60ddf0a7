"""`exec-server doctor`: which guarantees hold on this machine."""

from __future__ import annotations

from exec_server.cli.exit_status import put
from exec_server.printable import printable


def doctor() -> int:
    """Say which guarantees hold on this machine, and what follows where one does not."""
    from actors.system.doctor import facts

    found = facts()
    width = max(len(fact.name) for fact in found)
    for fact in found:
        put(f"{'yes' if fact.holds else ' no'}  {fact.name:<{width}}  {printable(fact.detail)}\n")
    return 0
