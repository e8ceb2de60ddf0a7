"""The last steps before a command's program: run in its process, which then becomes it by execve(2).

    launcher limits RLIMITS GROUP PROGRAM ARGV...
    launcher sandbox

`limits` sets resource limits ("7=1024,0=5", setrlimit(2)), enters the cgroup GROUP unless that is "", and executes.
Status 126 and a line on standard error where one cannot be set.

`sandbox` is run by bwrap inside. Descriptor 3 has what to execute, each item ended by NUL: the soft limit of open
files or "", the working directory, PROGRAM, the number of items of ARGV, these, and the environment. Descriptor 4 takes
the report, "+" and then "cwd ERRNO" or "program ERRNO" for a failure, and is closed by the exec. All signals are
blocked until just before that, so that one that came meanwhile finds the command.

Little is imported, for each import is a part of every such start.
"""

import os
import sys

EXEC_FORMAT_ERROR = 8  # ENOEXEC
PYTHONS_OWN_SIGNALS = (2, 13, 25)
"""Python itself handles SIGINT and ignores SIGPIPE and SIGXFSZ."""


def main(arguments: list[str]) -> None:
    """Does not return."""
    if arguments[0] == "limits":
        limits, group, program, *argv = arguments[1:]
        limited(limits, group, os.fsencode(program), [os.fsencode(item) for item in argv])
    else:
        inside()


def limited(limits: str, group: str, program: bytes, argv: list[bytes]) -> None:
    try:
        set_limits(limits)
        if group:
            with open(group + "/cgroup.procs", "w") as procs:
                procs.write("0")
        with open("/proc/self/environ", "rb") as environ:  # Python may have added to its own (PEP 538)
            items = environ.read().split(b"\0")
        use_default_signals()
        execute(program, argv, [item for item in items if b"=" in item])
    except Exception as error:
        print("exec-server: the limits of this command could not be set:", error, file=sys.stderr)
        sys.stderr.flush()
        os._exit(126)


def inside() -> None:
    os.set_inheritable(4, False)
    os.closerange(5, 32)
    os.write(4, b"+")
    at = b"cwd"
    try:
        spec = b""
        while piece := os.read(3, 1 << 20):
            spec += piece
        os.close(3)
        soft, cwd, program, count, *items = spec.split(b"\0")[:-1]
        if soft:
            set_soft_open_files(int(soft))
        os.chdir(cwd)
        at = b"program"
        use_default_signals()
        unblock_signals()
        execute(program, items[: int(count)], items[int(count) :])
    except OSError as error:
        os.write(4, b"%s %d" % (at, error.errno or 0))
    os._exit(127)


def set_limits(limits: str) -> None:
    import resource

    for each in filter(None, limits.split(",")):
        number, value = map(int, each.split("="))
        resource.setrlimit(number, (value, value))


def set_soft_open_files(soft: int) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or soft <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def use_default_signals() -> None:
    from _signal import SIG_DFL, signal  # type: ignore[import-not-found]  # `signal` itself would import enum

    for number in PYTHONS_OWN_SIGNALS:
        signal(number, SIG_DFL)


def unblock_signals() -> None:
    from _signal import SIG_SETMASK, pthread_sigmask

    pthread_sigmask(SIG_SETMASK, [])


def execute(program: bytes, argv: list[bytes], env: list[bytes]) -> None:
    """Become the program; what the kernel cannot execute goes to the shell, as with execvp(3). Raises OSError."""
    variables = dict(item.split(b"=", 1) for item in env)
    try:
        os.execve(program, argv, variables)
    except OSError as error:
        if error.errno != EXEC_FORMAT_ERROR:
            raise
        os.execve(b"/bin/sh", [b"/bin/sh", program, *argv[1:]], variables)


if __name__ == "__main__":
    main(sys.argv[1:])
