"""Connections: bytes in and out, who may connect, and the bridge from frames to actor messages."""
