"""The file helper with nothing but what it needs to be imported: `file_helper COUNT FOLDER... ARGUMENT...`.

The first COUNT arguments are the folders in which packages are found.
"""

import sys


def main(arguments: list[str]) -> int:
    """The helper's exit status."""
    count = int(arguments[0])
    sys.path[:0] = arguments[1 : 1 + count]
    from actors.system.filesystem.helper import main as helper

    return helper(arguments[1 + count :])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
