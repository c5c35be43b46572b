"""Lists the system calls of a command that a tracer watches, and what each of them is about.

`Observation` makes the filter that has the kernel ask before a call, and says what such a call means:
something that the profile's filter refuses, or an attempt on paths or an address. It watches only calls that
the profile can refuse, because each costs the command a wait. Pure: arguments are numbers, and others read
what they point to.

A refusal by the kernel itself precedes the question, and the tracer would never learn of it. So for a traced
command refusals are questions too, and the answer is always the errno. Without an answer the kernel does not
make the call either: it fails with ENOSYS.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from paddock.model.denial import DenialKind
from paddock.model.profile import Access, NetworkMode
from paddock.sandbox.denial.attempt import Need
from paddock.sandbox.host.syscall_table import Machine
from paddock.sandbox.plan import bpf, seccomp
from paddock.sandbox.plan.bpf import Condition, Notice, Refusal, Word
from paddock.sandbox.plan.plan import PRIVATE, Plan
from paddock.sandbox.plan.seccomp import O_CREAT, O_TMPFILE_BIT, Rule

O_ACCMODE: Final = 0o3
O_EXCL: Final = 0o200
O_TRUNC: Final = 0o1000
O_PATH: Final = 0o10000000
"""The same on every machine there are filters for (asm-generic/fcntl.h)."""

AT_SYMLINK_NOFOLLOW: Final = 0x100
NEW_LISTENER: Final = 8
"""SECCOMP_FILTER_FLAG_NEW_LISTENER of seccomp(2)."""

WRITING: Final = O_ACCMODE | O_CREAT | O_TRUNC


class Operand(Struct, frozen=True):
    """A path among the arguments of a call: which arguments name it."""

    need: Need = Need.SOMETHING
    path: int | None = 0
    """Points to the path. Without one, or if it is empty, the file is that of the descriptor."""
    directory: int | None = None
    """The descriptor that relative paths are relative to; without one, the working directory."""
    follows: bool = True
    """Whether a link at the end of the path is followed."""
    flags: int | None = None
    """The argument in which AT_SYMLINK_NOFOLLOW may say otherwise."""
    is_moved: bool = False
    """Whether the call removes the name, where something may be mounted."""


class FileCall(Struct, frozen=True):
    """A call that reads, writes or executes what has a path."""

    name: str
    kind: DenialKind
    operands: tuple[Operand, ...]
    source: Operand | None = None
    """A file that must exist, or the call fails anyway."""


class OpenCall(Struct, frozen=True):
    """A call that opens a file, for reading or writing according to its flags."""

    name: str
    operand: Operand
    flags: int


class AddressCall(Struct, frozen=True):
    """A call with an address, which may be left out if `is_optional`."""

    name: str
    address: int
    is_optional: bool = False


Watched = FileCall | OpenCall | AddressCall


def _change(name: str, *operands: Operand, source: Operand | None = None) -> FileCall:
    return FileCall(name, DenialKind.WRITE, operands, source)


_VACANCY: Final = Operand(Need.VACANCY, follows=False)
_ENTRY: Final = Operand(follows=False)
_OLD_AND_NEW: Final = (Operand(follows=False, is_moved=True), Operand(Need.NAME, 1, follows=False))
_OLD_AND_NEW_AT: Final = (
    Operand(path=1, directory=0, follows=False, is_moved=True),
    Operand(Need.NAME, 3, 2, follows=False),
)

OPENING: Final = (
    OpenCall("open", Operand(), flags=1),
    OpenCall("openat", Operand(path=1, directory=0), flags=2),
)
READING: Final = (FileCall("chdir", DenialKind.READ, (Operand(),)),)
EXECUTING: Final = (
    FileCall("execve", DenialKind.EXEC, (Operand(Need.FILE),)),
    FileCall("execveat", DenialKind.EXEC, (Operand(Need.FILE, 1, 0),)),
)
CHANGING: Final = (
    _change("creat", Operand(Need.NAME)),
    *(_change(name, _VACANCY) for name in ("mkdir", "mknod")),
    *(_change(name, Operand(Need.VACANCY, 1, 0, follows=False)) for name in ("mkdirat", "mknodat")),
    _change("symlink", Operand(Need.VACANCY, 1, follows=False)),
    _change("link", Operand(Need.VACANCY, 1, follows=False), source=_ENTRY),
    _change("linkat", Operand(Need.VACANCY, 3, 2, follows=False), source=_OLD_AND_NEW_AT[0]),
    _change("symlinkat", Operand(Need.VACANCY, 2, 1, follows=False)),
    *(_change(name, _ENTRY) for name in ("unlink", "rmdir", "lchown", "lsetxattr", "lremovexattr")),
    _change("unlinkat", Operand(path=1, directory=0, follows=False)),
    _change("rename", *_OLD_AND_NEW, source=_OLD_AND_NEW[0]),
    *(_change(name, *_OLD_AND_NEW_AT, source=_OLD_AND_NEW_AT[0]) for name in ("renameat", "renameat2")),
    _change("truncate", Operand(Need.FILE)),
    *(_change(name, Operand()) for name in ("chmod", "chown", "utime", "utimes", "setxattr", "removexattr")),
    *(_change(name, Operand(path=None, directory=0)) for name in ("fchmod", "fchown")),
    *(_change(name, Operand(path=1, directory=0)) for name in ("fchmodat", "futimesat")),
    *(_change(name, Operand(path=1, directory=0, flags=3)) for name in ("fchmodat2", "utimensat")),
    _change("fchownat", Operand(path=1, directory=0, flags=4)),
)
REACHING: Final = (AddressCall("connect", 1), AddressCall("sendto", 4, is_optional=True))
ADDRESSING: Final = (*REACHING, AddressCall("bind", 1))

SOCKET_CALLS: Final = frozenset(
    {"socket", "socketpair", "connect", "bind", "listen", "accept", "accept4"}
    | {"sendto", "sendmmsg", "recvmmsg"}
)
"""Calls whose refusal by the filter counts as network; that of any other counts as a system call."""


class Observation:
    """The calls of a command to watch under a plan, on one machine.

    For a command that is not traced, these are its executions alone, if it `is_intercepted`.
    """

    def __init__(
        self, plan: Plan, machine: Machine, *, is_traced: bool = True, is_intercepted: bool = False
    ) -> None:
        self._machine = machine
        watched = tuple(_watched(plan)) if is_traced else ()
        if is_intercepted:
            watched = (*EXECUTING, *(call for call in watched if call not in EXECUTING))
        self._watched = tuple(call for call in watched if call.name in machine.numbers)
        self._watches_reading = restricts_reading(plan)
        self._refused = tuple(
            rule
            for rule in (seccomp.rules(plan.network) if is_traced else ())
            if rule.is_denial and rule.call in machine.numbers
        )
        self._calls = {machine.numbers[call.name]: call for call in self._watched}
        self._addresses = {machine.numbers[call.name]: call for call in ADDRESSING}
        self._rules: dict[int, list[Rule]] = {}
        for rule in self._refused:
            self._rules.setdefault(machine.numbers[rule.call], []).append(rule)

    def program(self) -> bytes:
        """Return the filter that a listener belongs to."""
        numbers = self._machine.numbers
        # The kernel allows one listener (seccomp_unotify(2)). If it ever allows more, it would ask the newest
        # first, which could be the command's own.
        listening = Condition(Word(1), (0,), NEW_LISTENER, is_negated=True)
        cases: list[Refusal | Notice] = [Refusal(numbers["seccomp"], errno.EBUSY, (listening,))]
        cases += [Notice(numbers[rule.call], rule.conditions) for rule in self._refused]
        for call in self._watched:
            cases += [Notice(numbers[call.name], conditions) for conditions in self._conditions(call)]
        return bpf.assemble(
            self._machine.audit_architecture, cases, foreign_abi_bit=self._machine.foreign_abi_bit
        )

    def refusal(self, number: int, arguments: Sequence[int]) -> Rule | None:
        """Return the rule of the profile's filter that refuses a call, if one does."""
        for rule in self._rules.get(number, ()):
            if all(condition.holds(arguments) for condition in rule.conditions):
                return rule
        return None

    def call(self, number: int) -> Watched | None:
        """Return what a watched call is about; None if it is not watched."""
        return self._calls.get(number)

    def is_execution(self, number: int) -> bool:
        """Return whether a watched call executes something."""
        return self._calls.get(number) in EXECUTING

    def address(self, number: int) -> AddressCall | None:
        """Return where the address is in a call, watched or refused, that has one."""
        return self._addresses.get(number)

    def _conditions(self, call: Watched) -> Iterator[tuple[Condition, ...]]:
        """Yield the conditions of a call. The filter watches the call if one of these holds."""
        match call:
            case OpenCall(flags=flags) if not self._watches_reading:
                yield (Condition(Word(flags), (0,), WRITING, is_negated=True),)
            case AddressCall(address=address, is_optional=True):
                yield (Condition(Word(address), (0,), is_negated=True),)
                yield (Condition(Word(address, is_high=True), (0,), is_negated=True),)
            case _:
                yield ()


def opening(flags: int) -> tuple[tuple[DenialKind, Need], ...]:
    """Return what a file is opened for, and what must be there for open(2) to reach the question of access.

    Returns nothing for O_PATH, which needs no access to the file.
    """
    if flags & O_PATH:
        return ()
    if flags & O_TMPFILE_BIT and flags & O_ACCMODE:
        return ((DenialKind.WRITE, Need.SOMETHING),)
    if flags & O_CREAT and flags & O_EXCL:
        return ((DenialKind.WRITE, Need.VACANCY),)
    if flags & O_CREAT and not flags & (O_ACCMODE | O_TRUNC):
        # As flock(1) does: it only reads an existing file, even where it can't create one.
        return (DenialKind.WRITE, Need.VACANCY), (DenialKind.READ, Need.SOMETHING)
    if flags & O_CREAT:
        return ((DenialKind.WRITE, Need.NAME),)
    return ((DenialKind.WRITE, Need.FILE) if flags & WRITING else (DenialKind.READ, Need.SOMETHING),)


def _watched(plan: Plan) -> Iterator[Watched]:
    reading = restricts_reading(plan)
    restricts_writing = any(rule.access is not Access.WRITE and rule.origin != PRIVATE for rule in plan.rules)
    if restricts_writing:
        yield from CHANGING
    if restricts_writing or reading:
        yield from OPENING
    if reading:
        yield from (*READING, *EXECUTING)
    # Where the network is restricted these are refused as such, and where it is the host's none can be.
    if plan.network in (NetworkMode.LOOPBACK, NetworkMode.PROXIED):
        yield from REACHING


def restricts_reading(plan: Plan) -> bool:
    """Return whether a plan keeps a command from reading something."""
    return any(rule.access is Access.DENY and rule.origin != PRIVATE for rule in plan.rules) or not any(
        rule.path == "/" for rule in plan.rules
    )
