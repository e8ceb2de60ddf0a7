"""`exec-server schema`: the messages of the wire as a JSON Schema."""

from __future__ import annotations


def schema() -> int:
    """Print a JSON Schema (draft 2020-12) of all messages."""
    import json

    from protocol.json_schema import message_schema

    print(json.dumps(message_schema(), indent=2))
    return 0
