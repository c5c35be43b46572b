"""Judges the attempts of a traced command by its profile.

A tracer sees an attempt before the kernel decides about it, so this module works out the outcome: an attempt
is a denial if the profile refuses it, and it would not have failed anyway because the file is missing. Pure:
`resolution` finds out where a path leads.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from paddock.model.denial import Denial, DenialKind
from paddock.sandbox.denial.policy import CALL_WORDS, Policy
from paddock.sandbox.denial.socket_address import InternetAddress, SocketAddress
from paddock.sandbox.profile.path import is_within


class Content(StrEnum):
    """What a command meets at a path."""

    NOWHERE = "nowhere"
    """The parent directory is missing too, or can't be searched."""
    NOTHING = "nothing"
    FILE = "file"
    DIRECTORY = "directory"
    SPECIAL = "special"
    """A pipe, a socket or a device: a read-only mount does not keep anybody from writing to it."""
    OWN = "own"
    """A directory of the sandbox's own, which a command can pass through and perhaps list."""
    REFUSED = "refused"
    """Below a denied path, where nothing is possible, whatever it is."""


class Need(StrEnum):
    """What must be at a path for a call not to fail anyway."""

    SOMETHING = "something"
    FILE = "file"
    """Anything but a directory."""
    NAME = "name"
    """A file, or a free name for one."""
    VACANCY = "vacancy"


_CONTENTS = {
    Need.SOMETHING: frozenset({Content.REFUSED, Content.FILE, Content.DIRECTORY}),
    Need.FILE: frozenset({Content.REFUSED, Content.FILE}),
    Need.NAME: frozenset({Content.REFUSED, Content.FILE, Content.NOTHING}),
    Need.VACANCY: frozenset({Content.REFUSED, Content.NOTHING}),
}


class Resolution(Struct, frozen=True):
    """Where a path leads."""

    real: str
    """The path without links, as far as it exists."""
    content: Content

    @property
    def is_there(self) -> bool:
        """Return whether something is there that a command can change in place."""
        return self.content in (Content.FILE, Content.DIRECTORY)


class FileAttempt(Struct, frozen=True):
    """An attempt to read, write or execute something with a path."""

    kind: DenialKind
    target: str
    """The absolute path as the command sees it."""
    need: Need
    real: str
    """The path without links."""
    content: Content
    is_moved: bool = False
    """Whether the call moves the file away, which is impossible for a mount point."""
    is_in_place: bool = False
    """Whether only the file itself changes, and not its directory."""
    linked: str | None = None
    """The file that a hard link would be another name of. What a profile grants is a mount, and no link leads
    from one mount to another."""


class NetworkAttempt(Struct, frozen=True):
    """An attempt to connect to an address, or to listen on one."""

    address: SocketAddress | None
    """None if it is unknown, because there is no socket yet."""
    is_refused: bool
    """Whether the call as such is refused, whatever the address."""
    is_vain: bool = False
    """Whether nothing would answer anyway: many programs try services that few hosts have."""


class CallAttempt(Struct, frozen=True):
    """An attempt to make a system call that the filter refuses."""

    call: str


Attempt = FileAttempt | NetworkAttempt | CallAttempt


def denial_of(attempt: Attempt, policy: Policy) -> Denial | None:
    """Return the denial; None if the attempt succeeds, or fails for another reason."""
    match attempt:
        case CallAttempt(call=call):
            return Denial(DenialKind.SYSCALL, call, CALL_WORDS, is_certain=True)
        case NetworkAttempt(is_vain=True):
            return None
        case NetworkAttempt(address=address, is_refused=is_refused):
            is_far = isinstance(address, InternetAddress) and policy.refuses_host(str(address.host))
            if not is_refused and not is_far:
                return None
            target = None if address is None else _shown(str(address))
            return Denial(DenialKind.NETWORK, target, policy.network_words, is_certain=True)
        case FileAttempt(kind=kind, target=target, real=real):
            if policy.is_private(real):
                # Every program that walks /tmp meets it, and the client need not hear of it.
                return None
            ruling = policy.at(real)
            if attempt.is_moved and ruling is not None and not ruling.refuses(kind):
                ruling = policy.fixed(real)
            if ruling is None or not ruling.refuses(kind) or attempt.content not in _CONTENTS[attempt.need]:
                return None
            is_in_place = attempt.is_in_place and Resolution(real, attempt.content).is_there
            grant = ruling.grant(kind, real, is_in_place=is_in_place)
            if grant is not None and attempt.linked is not None and not is_within(attempt.linked, grant):
                grant = None
            return Denial(kind, _shown(target), ruling.words, is_certain=True, grant=grant)


def _shown(text: str) -> str:
    """Return the text with a replacement character for each invalid byte."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
