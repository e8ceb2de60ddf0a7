"""How long a call waits, and how much output it brings. Pure."""

from __future__ import annotations

MIN_YIELD_MS = 250
MAX_YIELD_MS = 30_000
DEFAULT_YIELD_MS = 10_000
POLL_YIELD_MS = 5_000
"""What a call without input waits by default."""
REACT_MS = 100
"""What a program gets to react to input, before the window of that call begins."""
RETAINED_BYTES = 1 << 20
"""Output of one command that is kept until it is shown; the first and the last half of it."""
DEFAULT_OUTPUT_TOKENS = 10_000
BYTES_PER_TOKEN = 4


def yield_window_ms(asked: int | None, *, poll: bool = False) -> int:
    """How long a call may wait for its command to end, in milliseconds; `poll`: it has no input."""
    if asked is None:
        return POLL_YIELD_MS if poll else DEFAULT_YIELD_MS
    return min(max(asked, MIN_YIELD_MS), MAX_YIELD_MS)


def estimated_tokens(size: int) -> int:
    """About how many tokens a model makes of so many bytes of text."""
    return -(-size // BYTES_PER_TOKEN)


def output_limit(max_bytes: int | None, max_tokens: int | None) -> int:
    """How many bytes of output are shown; of two limits the smaller one holds. Raises ValueError for negative ones."""
    for name, value in (("max_output_bytes", max_bytes), ("max_output_tokens", max_tokens)):
        if value is not None and value < 0:
            raise ValueError(f"{name} is a size, not {value}")
    if max_bytes is None and max_tokens is None:
        max_tokens = DEFAULT_OUTPUT_TOKENS
    limits = [RETAINED_BYTES]
    if max_bytes is not None:
        limits.append(max_bytes)
    if max_tokens is not None:
        limits.append(max_tokens * BYTES_PER_TOKEN)
    return min(limits)
