"""`exec-server doctor`: which guarantees hold on this machine."""

from __future__ import annotations


def doctor() -> int:
    """Say which guarantees hold on this machine, and what follows where one does not."""
    from actors.system.doctor import facts

    found = facts()
    width = max(len(fact.name) for fact in found)
    for fact in found:
        print(f"{'yes' if fact.holds else ' no'}  {fact.name:<{width}}  {fact.detail}")
    return 0
