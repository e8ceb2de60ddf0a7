"""Table of what a client may call: method name -> its params, which tell the rest (`protocol.requests`)."""

from __future__ import annotations

from protocol import environment, filesystem, http, process, session
from protocol.requests import AnyParams, table_of

METHODS: dict[str, AnyParams] = table_of(session, environment, process, filesystem, http)
