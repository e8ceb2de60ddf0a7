"""`python -m tests.web_vendor`: `--renew` takes the files from npm, `--check` compares them with npm's packages."""

from __future__ import annotations

import sys

from tests.web_vendor.packages import FOLDER, PackageError, differences, fetch_all, write


def main(arguments: list[str]) -> int:
    """The exit status: 0 if all is well."""
    if arguments not in (["--renew"], ["--check"]):
        print("usage: python -m tests.web_vendor --renew | --check", file=sys.stderr)
        return 2
    try:
        packages = fetch_all()
        if arguments == ["--renew"]:
            write(packages)
        found = differences(packages)
    except PackageError as error:
        print(error, file=sys.stderr)
        return 1
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"{FOLDER.name}/ is what npm has, in {len(packages)} packages")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
