"""`exec-server schema`: the messages of the wire as a JSON Schema."""

from __future__ import annotations

from exec_server.cli.exit_status import put


def schema() -> int:
    """Print a JSON Schema (draft 2020-12) of all messages."""
    import json

    from protocol.json_schema import message_schema

    put(json.dumps(message_schema(), indent=2) + "\n")
    return 0
