"""The Thespian system base that runs all actors of a server on one asyncio loop.

install()
system = ActorSystem("asyncioBase", capabilities, logDefs, transientUnique=True)
engine = engine_of(system)
"""

from actors.engine.asyncio_base import ActorSystemBase, engine_of, install
from actors.engine.dispatch import dispatch

__all__ = ["ActorSystemBase", "dispatch", "engine_of", "install"]
