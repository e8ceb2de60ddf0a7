"""What blocks, away from the loop as long as that can be had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """`asyncio.to_thread`; where no thread can be started, the loop itself waits. For what is short and must be done
    even then: the end of the server, a reload.
    """
    try:
        return await asyncio.to_thread(function, *args)
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        return function(*args)
