"""Framers: whole messages out of a stream of bytes. Pure."""
