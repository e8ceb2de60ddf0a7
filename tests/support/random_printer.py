"""A program that prints pieces of random sizes on both streams at random moments: `random_printer.py SEED COUNT`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

SIZES = (1, 1, 7, 80, 80, 500, 4096, 9000, 70_000)


def printed(seed: int, count: int) -> Iterator[tuple[str, bytes, bool]]:
    """Each piece: its stream, its bytes, and whether a pause of a millisecond comes before it."""
    state = seed * 2 + 1
    for number in range(count):
        state = state * 6364136223846793005 % (1 << 64) + 1442695040888963407
        chance = state >> 33
        name = "stderr" if chance % 3 == 0 else "stdout"
        yield name, f"<{number}>".encode().ljust(SIZES[chance % len(SIZES)], b"."), chance % 5 == 0


def main() -> None:
    fds = {"stdout": 1, "stderr": 2}
    for name, data, pause in printed(int(sys.argv[1]), int(sys.argv[2])):
        if pause:
            time.sleep(0.001)
        while data:
            data = data[os.write(fds[name], data) :]


if __name__ == "__main__":
    main()
