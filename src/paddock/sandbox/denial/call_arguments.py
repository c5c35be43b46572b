"""Reads what a call is about from its arguments: paths and addresses as the command gave them.

It reads the memory and descriptors of the task that makes the call, which waits meanwhile. Afterwards the
caller must verify that the task still waits; otherwise another process may have been read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from msgspec import Struct

from paddock.model.denial import DenialKind
from paddock.sandbox.denial.attempt import CallAttempt, Content, Need, NetworkAttempt
from paddock.sandbox.denial.mount_overlay import MountOverlay
from paddock.sandbox.denial.notification import Memory, Question
from paddock.sandbox.denial.observation import (
    AT_SYMLINK_NOFOLLOW,
    SOCKET_CALLS,
    AddressCall,
    FileCall,
    OpenCall,
    Operand,
    Watched,
    opening,
)
from paddock.sandbox.denial.resolution import resolve
from paddock.sandbox.denial.socket_address import ADDRESS_BYTES, LocalAddress, SocketAddress, parse_address
from paddock.sandbox.plan.seccomp import AF_UNIX, Rule
from paddock.sandbox.profile.path import join

_AT_FDCWD: Final = -100


class NamedFile(Struct, frozen=True):
    """A file that a call names, and the access that the call wants."""

    kind: DenialKind
    path: str
    """Absolute, otherwise as written."""
    need: Need
    follows: bool = True
    is_moved: bool = False
    source: str | None = None
    """A path that must exist, or the call fails anyway."""


Subject = NamedFile | NetworkAttempt | CallAttempt


class ArgumentReader:
    """Reads what calls are about. For one thread at a time."""

    def __init__(self, overlay: MountOverlay) -> None:
        self._overlay = overlay
        self._memory = Memory()

    def of_refused(self, question: Question, rule: Rule, call: AddressCall | None) -> Subject:
        """Return what a call that the profile's filter refuses is about.

        `call` tells where its address is.
        """
        if rule.call not in SOCKET_CALLS:
            return CallAttempt(rule.call)
        address = None if call is None else self._address(question, call)
        if rule.call == "socket":
            # These are services of the host, such as nscd and syslog, that programs use only where they
            # exist.
            is_vain = question.arguments[0] == AF_UNIX
        else:
            is_vain = rule.call != "bind" and self._is_nobodys(address)
        return NetworkAttempt(address, is_refused=True, is_vain=is_vain)

    def of_watched(self, question: Question, call: Watched) -> list[Subject]:
        """Return what a watched call is about, except for what can't be read."""
        match call:
            case FileCall():
                return list(self._named(question, call))
            case OpenCall():
                return list(self._opened(question, call))
            case AddressCall():
                return [NetworkAttempt(self._address(question, call), is_refused=False)]
            case _:
                assert_never(call)

    def _named(self, question: Question, call: FileCall) -> Iterator[Subject]:
        source = None if call.source is None else self._path(question, call.source)
        for operand in call.operands:
            path = self._path(question, operand)
            if path is not None:
                follows = _follows(operand, question.arguments)
                yield NamedFile(call.kind, path, operand.need, follows, operand.is_moved, source)

    def _opened(self, question: Question, call: OpenCall) -> Iterator[Subject]:
        path = self._path(question, call.operand)
        if path is not None:
            flags = question.arguments[call.flags]
            yield from (NamedFile(kind, path, need) for kind, need in opening(flags))

    def _path(self, question: Question, operand: Operand) -> str | None:
        """Return the absolute path of an operand; None if it is unknown."""
        path = ""
        if operand.path is not None and (address := question.arguments[operand.path]):
            data = self._memory.text(question.task, address)
            if data is None:
                return None
            path = os.fsdecode(data)
        if path.startswith("/"):
            return path
        origin = _origin(question, operand.directory)
        return origin if origin is None or not path else join(origin, path)

    def _address(self, question: Question, call: AddressCall) -> SocketAddress | None:
        address, length = question.arguments[call.address : call.address + 2]
        length = min(length & 0xFFFFFFFF, ADDRESS_BYTES)
        data = self._memory.data(question.task, address, length) if address and length else None
        return None if data is None else parse_address(data)

    def _is_nobodys(self, address: SocketAddress | None) -> bool:
        """Return whether the address is the path of a socket that does not exist."""
        if not isinstance(address, LocalAddress) or not address.name.startswith("/"):
            return False
        return resolve(address.name, overlay=self._overlay).content in (Content.NOTHING, Content.NOWHERE)


def _origin(question: Question, directory: int | None) -> str | None:
    """Return the path of the directory, or the file, that a path starts from, as the task sees it."""
    descriptor = _AT_FDCWD if directory is None else _signed(question.arguments[directory])
    name = "cwd" if descriptor == _AT_FDCWD else f"fd/{descriptor}"
    try:
        origin = os.readlink(f"/proc/{question.task}/{name}")
    except OSError:
        return None
    # A pipe or a socket has a name that is no path.
    return origin if origin.startswith("/") else None


def _signed(argument: int) -> int:
    """Return an argument as an `int` of C: the kernel reads only the low half."""
    return (argument & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def _follows(operand: Operand, arguments: Sequence[int]) -> bool:
    if operand.flags is not None and arguments[operand.flags] & AT_SYMLINK_NOFOLLOW:
        return False
    return operand.follows
