"""Paths that plugins and marketplaces name, relative to a folder of theirs. Pure."""

from __future__ import annotations


def relative_path(text: str) -> str:
    """The path as its plain components, `./skills/` as `skills`. Raises ValueError, saying what is wrong with it, for
    what does not begin with `./`, names the folder itself, or could lead out of it.
    """
    if not text.startswith("./"):
        raise ValueError("a path has to begin with `./`")
    rest = text[2:]
    if rest.startswith("/"):
        raise ValueError("a path may not be absolute")
    if "\0" in rest:
        raise ValueError("a path has no NUL")
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if not parts:
        raise ValueError("a path has to name something in the folder, not the folder itself")
    if ".." in parts:
        raise ValueError("a path may not have `..` in it")
    return "/".join(parts)
