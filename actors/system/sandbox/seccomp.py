"""A filter for system calls that no mount and no namespace can stop (seccomp(2)). Pure.

* TIOCSTI types into a terminal, TIOCLINUX does so on a console.
* Keyrings belong to users, not to namespaces.
* A program with a set-user-ID or set-group-ID bit is the server's user for whoever runs it outside. The bits are
  refused in the modes of chmod(2), open(2), mkdir(2), mknod(2) and their relatives, and openat2(2), whose mode is in
  memory, is not there (ENOSYS); as systemd.exec(5) has it for RestrictSUIDSGID=.
* User namespaces would give all capabilities in them, and with those more of the kernel to attack. clone3(2), whose
  flags are in memory, is not there (ENOSYS): libraries use clone(2) then.
* io_uring could do all of this behind the filter's back.
* With the network cut: a Unix socket anywhere in the file system can be connected to, although the mount is read-only,
  and a vsock reaches the host of a virtual machine. So sockets are for the Internet (in an empty network) and for
  netlink. Pairs are streams or sequences of packets: a pair of datagram sockets may send to any address.
"""

from __future__ import annotations

import errno
import struct
from typing import Final, NamedTuple

_Instruction = tuple[int, int, int, int]

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_OF: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_X32: Final = 0x40000000
_FAMILIES: Final = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK
_TYPES: Final = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET
_TYPE: Final = 0xF  # the rest of the argument is flags
_SET_ID: Final = 0o6000  # S_ISUID | S_ISGID
_MAKES: Final = 0o100 | 0o20000000  # O_CREAT, and of O_TMPFILE what O_DIRECTORY has not: there is a mode
_NEW_USER: Final = 0x10000000  # CLONE_NEWUSER
_ABSENT: Final = (435, 437)  # clone3, openat2
_IO_URING_SETUP: Final = 425


class Architecture(NamedTuple):
    """An architecture of the kernel, and its numbers of system calls. `modes` has those that give a file a mode, with
    the index of that argument; `opens` the same for those where it counts with some flags only, which come before it;
    `clones` those whose first argument is flags of clone(2)."""

    audit: int
    ioctl: int
    socket: int
    socketpair: int
    keyrings: tuple[int, int, int]
    modes: tuple[tuple[int, int], ...]
    opens: tuple[tuple[int, int], ...]
    clones: tuple[int, int]


ARCHITECTURES: Final = {
    "x86_64": Architecture(
        audit=0xC000003E,
        ioctl=16,
        socket=41,
        socketpair=53,
        keyrings=(248, 249, 250),
        # chmod, fchmod, fchmodat, fchmodat2, creat, mkdir, mkdirat, mknod, mknodat
        modes=((90, 1), (91, 1), (268, 2), (452, 2), (85, 1), (83, 1), (258, 2), (133, 1), (259, 2)),
        opens=((2, 2), (257, 3)),  # open, openat
        clones=(56, 272),  # clone, unshare
    ),
    "aarch64": Architecture(
        audit=0xC00000B7,
        ioctl=29,
        socket=198,
        socketpair=199,
        keyrings=(217, 218, 219),
        modes=((52, 1), (53, 2), (452, 2), (34, 2), (33, 2)),  # fchmod, fchmodat, fchmodat2, mkdirat, mknodat
        opens=((56, 3),),
        clones=(220, 97),
    ),
}
"""By the name that uname(2) gives. Programs of another architecture get EPERM for everything."""


def program(architecture: Architecture, network: bool) -> bytes:
    """The filter, as an array of struct sock_filter."""
    made = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture.audit), _refuse()]
    made += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), _refuse()]
    for number in (*architecture.keyrings, _IO_URING_SETUP):
        made += _on(number, [_refuse()])
    for number in _ABSENT:
        made += _on(number, [_refuse(errno.ENOSYS)])
    made += _on(architecture.ioctl, [_load(1), *_refuse_values((_TIOCSTI, _TIOCLINUX))])
    for number, mode in architecture.modes:
        made += _on(number, [_load(mode), *_refuse_bits(_SET_ID)])
    for number, mode in architecture.opens:
        made += _on(number, [_load(mode - 1), (_ANY_OF, 1, 0, _MAKES), _allow(), _load(mode), *_refuse_bits(_SET_ID)])
    for number in architecture.clones:
        made += _on(number, [_load(0), *_refuse_bits(_NEW_USER)])
    if not network:
        made += _on(architecture.socket, [_load(0), *_allow_values(_FAMILIES)])
        made += _on(architecture.socketpair, [_load(1), (_AND, 0, 0, _TYPE), *_allow_values(_TYPES)])
    made.append(_allow())
    return b"".join(struct.pack("=HBBI", *each) for each in made)


def _on(number: int, body: list[_Instruction]) -> list[_Instruction]:
    """What decides about one system call; its number is loaded, before it and after it."""
    return [(_EQUAL, 0, len(body), number), *body]


def _load(argument: int) -> _Instruction:
    """The lower half of an argument, which is all of it for flags and modes; little-endian."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * argument


def _refuse_bits(bits: int) -> list[_Instruction]:
    return [(_ANY_OF, 0, 1, bits), _refuse(), _allow()]


def _refuse_values(values: tuple[int, ...]) -> list[_Instruction]:
    tests = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [*tests, _allow(), _refuse()]


def _allow_values(values: tuple[int, ...]) -> list[_Instruction]:
    tests = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [*tests, _refuse(), _allow()]


def _refuse(error: int = errno.EPERM) -> _Instruction:
    return _RETURN, 0, 0, _ERRNO | error


def _allow() -> _Instruction:
    return _RETURN, 0, 0, _ALLOW
