"""The frames in `golden/`, one file a release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "golden"
RELEASES = sorted(path.stem for path in FOLDER.glob("*.json"))


class Golden(NamedTuple):
    """One frame, and with a minimal request the params that it stands for."""

    release: str
    kind: str
    """`requests`, `results`, `notifications` or `errors`."""
    method: str
    """Of the request that a result answers; empty for an error."""
    variant: str
    """`full` or `minimal`."""
    frame: bytes
    means: str | None

    def __str__(self) -> str:
        return "-".join(filter(None, (self.release, self.kind, self.method, self.variant)))


def load(release: str) -> dict[str, Any]:
    """A file as it is."""
    frames: dict[str, Any] = json.loads((FOLDER / f"{release}.json").read_text())
    return frames


def frames(release: str) -> Iterator[Golden]:
    """All frames of a release."""
    for kind, methods in load(release).items():
        for method, variants in {"": methods}.items() if kind == "errors" else methods.items():
            for variant in ("full", "minimal"):
                means = variants.get("minimalMeans") if variant == "minimal" else None
                yield Golden(release, kind, method, variant, variants[variant].encode(), means)


ALL = [golden for release in RELEASES for golden in frames(release)]
