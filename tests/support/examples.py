"""How many examples Hypothesis tries."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

ALL: Final = os.environ.get("EXEC_SERVER_EXAMPLES") == "all"
"""Whether to try all of them, as `make test-slow` does; `make test` is to be done in three minutes."""
SHARE: Final = 5
LEAST: Final = 20


def number(most: int) -> int:
    """So many of `most`: all, or in the first tier a fifth, but never less than 20 where there are as many."""
    return most if ALL else min(most, max(LEAST, most // SHARE))


def examples(most: int) -> settings:
    """The settings of a property that is to be tried with `most` examples where all are tried."""
    return settings(max_examples=number(most))
