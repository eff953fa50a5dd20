"""A seccomp filter under which no process sets a set-user-id or set-group-id bit on a file.

A program with such a bit runs with the rights of its owner, whoever starts it. A command in the
sandbox owns the files that it writes, so it could leave one that any user of the machine starts,
long after the sandbox has ended. Mounts without such bits (`nosuid`) only stop them inside, and a
search afterwards comes too late. The filter refuses every system call that sets one: `chmod` and
its like, and the creation of a file. It refuses all of `openat2`, whose mode a filter cannot read,
and of `io_uring`, which passes by every filter; programs then use the older calls.

It is assembled here because it takes one kind of check: a library would bring `libseccomp`, which
is written in C and not installed everywhere.

Source: seccomp(2), the kernel's Documentation/userspace-api/seccomp_filter.rst, and its tables of
system calls (linux 6.12, which agree with all earlier numbers).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`; the low half of an argument comes first on these machines."""
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_SET_ID = 0o6000
_CREATES = 0o100 | 0o20000000
"""`O_CREAT` and the specific bit of `O_TMPFILE`: without them the mode is ignored."""
_X32 = 0x40000000
"""The first number of the x32 calls, which duplicate those of x86_64."""


class _Architecture(msgspec.Struct, frozen=True):
    """The numbers of system calls that set the mode of a file."""

    audit: int
    """The `AUDIT_ARCH_*` number."""
    mode: Mapping[int, int]
    """Call -> the index of its mode argument, from 0."""
    opens: Mapping[int, int]
    """Call that may create a file -> the index of its flags argument, which precedes the mode."""


_FCHMODAT2, _OPENAT2, _IO_URING_SETUP = 452, 437, 425
_GENERIC = {53: 2, 52: 1, 33: 2, _FCHMODAT2: 2}
_X86_64 = _Architecture(
    0xC000003E,
    {90: 1, 91: 1, 268: 2, 85: 1, 133: 1, 259: 2, _FCHMODAT2: 2},
    {2: 1, 257: 2},
)
_I386 = _Architecture(
    0x40000003,
    {15: 1, 94: 1, 306: 2, 8: 1, 14: 1, 297: 2, _FCHMODAT2: 2},
    {5: 1, 295: 2},
)
_AARCH64 = _Architecture(0xC00000B7, _GENERIC, {56: 2})
_ARM = _Architecture(
    0x40000028,
    {15: 1, 94: 1, 333: 2, 8: 1, 14: 1, 324: 2, _FCHMODAT2: 2},
    {5: 1, 322: 2},
)
_RISCV64 = _Architecture(0xC00000F3, _GENERIC, {56: 2})
_BY_MACHINE: Mapping[str, tuple[_Architecture, ...]] = MappingProxyType(
    {"x86_64": (_X86_64, _I386), "aarch64": (_AARCH64, _ARM), "riscv64": (_RISCV64,)}
)
"""Machine -> its own architecture, and the one that it also runs."""


def no_set_id_bits(machine: str) -> bytes:
    """Return the filter for a machine, as `platform.machine` names it; empty if unknown.

    >>> len(no_set_id_bits("x86_64")) % 8, no_set_id_bits("vax")
    (0, b'')
    """
    architectures = _BY_MACHINE.get(machine, ())
    program = b""
    for architecture in architectures:
        checks = _build_checks(architecture)
        is_other = _step(_EQUAL, architecture.audit, 0, len(checks) // 8)
        program += _step(_LOAD, _ARCHITECTURE) + is_other + checks
    return program + _refuse(errno.ENOSYS) if architectures else b""


def _build_checks(architecture: _Architecture) -> bytes:
    """Return the checks of one architecture; every path ends with a return instruction."""
    program = _step(_LOAD, _NUMBER)
    if architecture is _X86_64:
        program += _only_if(_AT_LEAST, _X32, _refuse(errno.ENOSYS))
    for number in (_OPENAT2, _IO_URING_SETUP):
        program += _only_if(_EQUAL, number, _refuse(errno.ENOSYS))
    for number, argument in architecture.mode.items():
        program += _only_if(_EQUAL, number, _check_mode(argument))
    for number, flags in architecture.opens.items():
        creates = _only_if(_ANY_BIT, _CREATES, _check_mode(flags + 1))
        program += _only_if(
            _EQUAL, number, _load_argument(flags) + creates + _step(_RETURN, _ALLOW)
        )
    return program + _step(_RETURN, _ALLOW)


def _check_mode(argument: int) -> bytes:
    """Return the check of a mode argument."""
    refusal = _only_if(_ANY_BIT, _SET_ID, _refuse(errno.EPERM))
    return _load_argument(argument) + refusal + _step(_RETURN, _ALLOW)


def _load_argument(number: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * number)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERROR | error)


def _only_if(comparison: int, value: int, steps: bytes) -> bytes:
    """Return steps that run only if a comparison with the loaded value holds."""
    return _step(comparison, value, 0, len(steps) // 8) + steps


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction, a `struct sock_filter`."""
    return struct.pack("=HBBI", code, if_true, if_false, value)
