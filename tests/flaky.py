"""`make flaky`: the test files changed since BASE, 20 times, while both cores are kept busy.

A test that fails once in 20 is a failure: somebody else will meet it. BASE is a commit, by default origin/main.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

TIMES = 20
ROOT = Path(__file__).parent.parent
SPIN = "import os\nwhile os.getppid() == {}: sum(range(10_000))"
"""Spins for as long as its parent lives, so that no accident leaves one behind."""


def changed_tests(base: str) -> list[str]:
    """Files of tests that differ from where this branch left `base`, committed or not, and still exist.

    Raises CalledProcessError where `base` is no commit.
    """
    fork = _git("merge-base", base, "HEAD").strip()
    changed = _git("diff", "--name-only", "--diff-filter=d", fork, "--", "tests").splitlines()
    untracked = _git("ls-files", "--others", "--exclude-standard", "--", "tests").splitlines()
    return sorted({name for name in (*changed, *untracked) if fnmatch(name, "*/test_*.py")})


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """As many spinning processes as there are cores; none is left at the end, whatever happens."""
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN.format(os.getpid())]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def main() -> int:
    """The exit status: 0 if every run passed, or there was nothing to run."""
    base = os.environ.get("BASE") or "origin/main"
    try:
        files = changed_tests(base)
    except subprocess.CalledProcessError:
        print(f"BASE={base} is not a commit of this repository", file=sys.stderr)
        return 2
    if not files:
        print(f"no test differs from {base}")
        return 0
    print(f"{len(files)} files changed since {base}:", *files, sep="\n  ", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow and not soak", "-p", "no:cacheprovider", *files]
    failed = 0
    with busy_cores():
        for n in range(1, TIMES + 1):
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            # 5 is pytest's "no tests collected": all that changed are in a slower tier.
            good = done.returncode in (0, 5)
            failed += not good
            lines = done.stdout.strip().splitlines()
            print(f"run {n} of {TIMES}: {lines[-1] if good else done.stdout}", flush=True)
    print(f"{TIMES - failed} of {TIMES} runs passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
