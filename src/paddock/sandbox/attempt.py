"""What a traced command tried to do, and whether its profile refuses that.

A tracer sees an attempt before the kernel decides about it. What comes of it is concluded
here: it is a denial when the profile refuses it, and it would not have failed anyway for
want of the file. Pure: where a path leads is found out by `place`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paddock.model.denial import Denial, DenialKind
from paddock.model.profile import Access, NetworkMode
from paddock.sandbox.access import AccessTable, Rule
from paddock.sandbox.path import is_within
from paddock.sandbox.plan import PRIVATE, Plan
from paddock.sandbox.socket_address import InternetAddress, SocketAddress
from paddock.sandbox.view import DEV, PROC


class Content(StrEnum):
    """What is at a path on the host."""

    NOWHERE = "nowhere"
    """Not even the directory it would be in, or one that can't be looked into."""
    NOTHING = "nothing"
    FILE = "file"
    DIRECTORY = "directory"
    SPECIAL = "special"
    """A pipe, a socket or a device: a place that is read-only does not keep anybody from writing to it."""


class Need(StrEnum):
    """What must be at a path, so that a call does not fail anyway."""

    SOMETHING = "something"
    FILE = "file"
    """No directory."""
    PLACE = "place"
    """A file, or a place for one."""
    VACANCY = "vacancy"


_CONTENTS = {
    Need.SOMETHING: frozenset({Content.FILE, Content.DIRECTORY}),
    Need.FILE: frozenset({Content.FILE}),
    Need.PLACE: frozenset({Content.FILE, Content.NOTHING}),
    Need.VACANCY: frozenset({Content.NOTHING}),
}


@dataclass(frozen=True, slots=True)
class FileAttempt:
    """To read, write or execute something that has a path."""

    kind: DenialKind
    target: str
    """As the command saw it, absolute."""
    need: Need
    real: str
    """Where the path leads, without links."""
    content: Content


@dataclass(frozen=True, slots=True)
class NetworkAttempt:
    """To reach somebody, or to be reached."""

    address: SocketAddress | None
    """None where it can't be known, because there was no socket yet."""
    is_refused: bool
    """Whether the call as such is refused, whatever the address."""


@dataclass(frozen=True, slots=True)
class CallAttempt:
    """To make a system call that is refused."""

    call: str


Attempt = FileAttempt | NetworkAttempt | CallAttempt


class Policy:
    """Decides what of a command's attempts its sandbox refuses."""

    def __init__(self, plan: Plan) -> None:
        self._table = AccessTable(plan.rules)
        self._network = plan.network

    def denial(self, attempt: Attempt) -> Denial | None:
        """What the command will be denied; None if the attempt succeeds, or fails for another reason."""
        match attempt:
            case CallAttempt(call=call):
                return Denial(DenialKind.SYSCALL, call, None, is_certain=True)
            case NetworkAttempt(address=address, is_refused=is_refused):
                if not is_refused and not self._is_out_of_reach(address):
                    return None
                target = None if address is None else _shown(str(address))
                return Denial(DenialKind.NETWORK, target, f"network = {self._network}", is_certain=True)
            case FileAttempt(kind=kind, target=target, real=real):
                rule = self._table.rule_of(real)
                if not _is_refused(attempt, rule) or attempt.content not in _CONTENTS[attempt.need]:
                    return None
                return Denial(kind, _shown(target), _words(rule), is_certain=True)

    def _is_out_of_reach(self, address: SocketAddress | None) -> bool:
        """Whether it is not on the private loopback, where that is all the network there is."""
        is_far = isinstance(address, InternetAddress) and not address.is_local
        return is_far and self._network is NetworkMode.LOOPBACK


def _is_refused(attempt: FileAttempt, rule: Rule | None) -> bool:
    # Both are the sandbox's own, whatever the profile says of the host's; what it denies in them is denied.
    for directory in (PROC, DEV):
        if is_within(attempt.real, directory) and (rule is None or not is_within(rule.path, directory)):
            return False
    access = Access.DENY if rule is None else rule.access
    return access is Access.DENY or (attempt.kind is DenialKind.WRITE and access is Access.READ)


def _shown(text: str) -> str:
    """Without the bytes in it that are no text."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _words(rule: Rule | None) -> str | None:
    """What refuses, in the words of the profile."""
    if rule is None or rule.origin == PRIVATE:
        return None
    return f"{rule.origin} = {rule.access}"
