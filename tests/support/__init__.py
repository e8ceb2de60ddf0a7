"""Harnesses that tests share."""
