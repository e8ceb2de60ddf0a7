"""Many calls to one machine, a bounded number of them at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")
AT_ONCE = 16


async def for_each(call: Callable[[A], Awaitable[T]], arguments: Iterable[A]) -> list[T]:
    """The results of a call with each argument, in their order; at most AT_ONCE calls are under way. Raises the first
    error, when the other calls are over.
    """
    waiting = list(enumerate(arguments))[::-1]
    results: dict[int, T] = {}

    async def worker() -> None:
        while waiting:
            number, argument = waiting.pop()
            results[number] = await call(argument)

    workers = [asyncio.create_task(worker()) for _ in range(min(AT_ONCE, len(waiting)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[number] for number in sorted(results)]
