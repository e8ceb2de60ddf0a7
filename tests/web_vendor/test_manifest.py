"""What the page runs is what the manifest says. Lost: a script in the page that nobody chose."""

from __future__ import annotations

import hashlib
import json

from tests.web_vendor.packages import FOLDER, MANIFEST, WANTED


def test_every_file_has_its_digest_and_its_licence() -> None:
    manifest = json.loads(MANIFEST.read_text())
    assert {name: about["version"] for name, about in manifest.items()} == {
        name: version for name, (version, _files) in WANTED.items()
    }
    known = {path: digest for about in manifest.values() for path, digest in about["sha256"].items()}
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert there == {*known, "manifest.json"}
    for path, digest in known.items():
        assert hashlib.sha256((FOLDER / path).read_bytes()).hexdigest() == digest, path
    for name, about in manifest.items():
        assert about["licence"] == "MIT", name
        in_package = any(path.endswith("/LICENSE") for path in about["sha256"])
        assert in_package or name == "@xterm/addon-serialize", name  # of the same authors, under the same licence
