"""Failures of handlers, by Thespian's rule or by the actor's own."""

from __future__ import annotations

import copy
import logging
import traceback
from typing import Any

from thespian.actors import ActorAddress, PoisonMessage

from actors.engine.cell import Cell
from actors.engine.dispatch import Handler
from actors.engine.mail import Mail

log = logging.getLogger("exec_server.engine")


def failed(mail: Mail, cell: Cell, handler: Handler, message: Any, sender: ActorAddress, error: Exception) -> Any:
    """Make good after `handler` raised `error`; the result of the handler, after all.

    An actor class with a method `handler_failed` says itself (`dispatch.ActorClass`). Else it is Thespian's rule: once
    more with a deep copy of the message, then PoisonMessage to the sender and no watch. Lets SystemExit through.
    """
    own_rule = cell.info.handler_failed if cell.info is not None else None
    if own_rule is None:
        return _retry(mail, cell, handler, message, sender)
    try:
        return own_rule(cell.instance, message, sender, error)
    except Exception:
        log.exception("%s could not make good its failure on %s", cell.class_name, message.__class__.__name__)
        return None


def _retry(mail: Mail, cell: Cell, handler: Handler, message: Any, sender: ActorAddress) -> Any:
    name, kind = cell.class_name, message.__class__.__name__
    log.warning("%s at %s failed on %s, trying again", name, cell.address, kind, exc_info=True)
    try:
        return handler(cell.instance, copy.deepcopy(message), sender)
    except Exception:
        log.error("%s at %s failed again on %s", name, cell.address, kind, exc_info=True)
        if not isinstance(message, PoisonMessage):
            mail.send(cell.address, sender, PoisonMessage(message, traceback.format_exc()))
        return None
