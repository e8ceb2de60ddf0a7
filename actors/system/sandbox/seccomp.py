"""A filter for system calls that no mount and no namespace can stop (seccomp(2)). Pure.

* TIOCSTI types into a terminal, TIOCLINUX does so on a console.
* Keyrings belong to users, not to namespaces.
* With the network cut: a Unix socket anywhere in the file system can be connected to, although the mount is read-only,
  and a vsock reaches the host of a virtual machine. So sockets are for the Internet (in an empty network) and for
  netlink, and pairs for all. io_uring could make others behind the filter's back.
"""

from __future__ import annotations

import errno
import struct
from typing import Final, NamedTuple

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32: Final = 0x40000000
_FAMILIES: Final = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK
_IO_URING_SETUP: Final = 425


class Architecture(NamedTuple):
    """An architecture of the kernel, and its numbers of system calls."""

    audit: int
    ioctl: int
    socket: int
    keyrings: tuple[int, int, int]


ARCHITECTURES: Final = {
    "x86_64": Architecture(0xC000003E, 16, 41, (248, 249, 250)),
    "aarch64": Architecture(0xC00000B7, 29, 198, (217, 218, 219)),
}
"""By the name that uname(2) gives. Programs of another architecture get EPERM for everything."""


def program(architecture: Architecture, network: bool) -> bytes:
    """The filter, as an array of struct sock_filter."""
    made = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture.audit), _refuse()]
    made += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), _refuse()]
    for number in (*architecture.keyrings, *(() if network else (_IO_URING_SETUP,))):
        made += [(_EQUAL, 0, 1, number), _refuse()]
    made += [(_EQUAL, 0, 5, architecture.ioctl), (_LOAD, 0, 0, _SECOND)]
    made += [(_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), _refuse(), _allow()]
    if not network:
        made += [(_EQUAL, 0, 2 + len(_FAMILIES), architecture.socket), (_LOAD, 0, 0, _FIRST)]
        made += [(_EQUAL, len(_FAMILIES) - index, 0, family) for index, family in enumerate(_FAMILIES)]
        made += [_refuse()]
    made.append(_allow())
    return b"".join(struct.pack("=HBBI", *each) for each in made)


def _refuse() -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _REFUSE


def _allow() -> tuple[int, int, int, int]:
    return _RETURN, 0, 0, _ALLOW
