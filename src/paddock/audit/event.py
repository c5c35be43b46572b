"""Events that an audit log can record. Pure values: a line of the log is one of these, numbered and chained.

An event names its subject by ids, as far as they exist: connections are numbered from the start
of the server, a session is the beginning of its id, and a process and a request have the names
that the client gave them. The log itself removes secrets (`redaction`) from every event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from paddock.audit.chain import Anchor

Verdict = Literal["allow", "prompt", "forbidden"]


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Something that happened. The line omits fields without a value."""

    connection: int | None = None
    session: str | None = None
    process: str | None = None
    request: int | str | None = None

    is_ending: ClassVar[bool] = False
    """Whether it ends what an earlier record began: there are no more of these than processes, and the
    server gives none of them up while it can't write the log."""


# --- the log itself ---------------------------------------------------------


class Opened(Event, frozen=True, kw_only=True, tag="opened"):
    """A server has begun to write, perhaps where another was killed."""

    version: str
    pid: int
    expected: Anchor | None = None
    """The record at the tip, if the log did not end as the tip says."""
    tip_lost: bool = False
    """Whether there were records but no tip."""


class Resumed(Event, frozen=True, kw_only=True, tag="resumed"):
    """The log can be written again."""

    reason: str
    lost: int
    """Number of records that could not be written in the meantime."""


class Closed(Event, frozen=True, kw_only=True, tag="closed"):
    """The server has ended in order."""


# --- clients and processes --------------------------------------------------


class SessionOpened(Event, frozen=True, kw_only=True, tag="session"):
    """A client has begun a session, or returned to it."""

    client: str
    peer: str
    resumed: bool = False
    operator: bool = False


class Confinement(Struct, frozen=True, kw_only=True):
    """The sandbox of a program."""

    type: str
    level: str
    """How much of the profile this host enforces."""
    profile: str
    """The name in the request, or `sha256:` and the digest of the profile in JSON."""


class Start(Event, frozen=True, kw_only=True, tag="start"):
    """A program is about to be started."""

    argv: tuple[str, ...]
    """The program to execute, and its arguments."""
    arg0: str | None = None
    """The name that the program sees as its own, if that is not `argv[0]`."""
    cwd: str
    env: Mapping[str, str]
    terminal: bool = False
    sandbox: Confinement | None = None
    """The sandbox; without it, nothing confines the program."""


class StartFailed(Event, frozen=True, kw_only=True, tag="start-failed"):
    """The program was not started after all."""

    is_ending: ClassVar[bool] = True
    reason: str


class Signal(Event, frozen=True, kw_only=True, tag="signal"):
    """A client has sent a signal to a process."""

    signal: str


class Exit(Event, frozen=True, kw_only=True, tag="exit"):
    """A process has ended."""

    is_ending: ClassVar[bool] = True
    pid: int
    exit_code: int
    signal: int | None = None
    cause: str | None = None
    """What ended it."""
    sandbox_denied: bool = False
    """Whether its sandbox probably made it fail; an earlier `denial` has the known details."""


class Lost(Event, frozen=True, kw_only=True, tag="lost"):
    """The outcome of a process will never be known."""

    is_ending: ClassVar[bool] = True
    reason: str


# --- what was allowed, and what was not -------------------------------------


class Decision(Event, frozen=True, kw_only=True, tag="decision"):
    """The rules have decided on a command."""

    argv: tuple[str, ...]
    cwd: str
    decision: Verdict
    rules: tuple[str, ...] = ()
    """The locations of the rules that matched."""
    reason: str | None = None
    justification: str | None = None


class Approval(Event, frozen=True, kw_only=True, tag="approval"):
    """Somebody was asked whether a command may run."""

    argv: tuple[str, ...]
    cwd: str
    approved: bool
    by: str
    scope: str | None = None
    reason: str | None = None


class Execution(Event, frozen=True, kw_only=True, tag="exec"):
    """A rule or an answer has decided on a program that a process wants to execute.

    Of two with the same `exec_id` the second counts: a program that was to run outside could not be let out.
    """

    exec_id: str
    program: str
    argv: tuple[str, ...]
    cwd: str
    verdict: Literal["run", "escalate", "deny"]
    reason: str
    rule: str | None = None
    """The location of the rule that decided."""
    justification: str | None = None
    not_escalated: str | None = None
    """Why it runs in the sandbox although a rule or an answer would let it out."""


class Denial(Event, frozen=True, kw_only=True, tag="denial"):
    """A sandbox denied something to its process."""

    operation: str
    subject: str | None = None
    """The path, address or call, as the process saw it."""
    reason: str | None = None
    certain: bool = True
    """Whether the profile implies the denial; otherwise only the output of the process suggests it."""


class NetworkDecision(Event, frozen=True, kw_only=True, tag="network"):
    """A process wanted to reach a host."""

    host: str
    port: int
    protocol: str
    decision: Verdict
    rule: str | None = None
    reason: str | None = None


KINDS: tuple[str, ...] = tuple(
    str(event.__struct_config__.tag)
    for event in (
        Opened,
        Resumed,
        Closed,
        SessionOpened,
        Start,
        StartFailed,
        Signal,
        Exit,
        Lost,
        Decision,
        Approval,
        Execution,
        Denial,
        NetworkDecision,
    )
)
"""All values of `kind`."""


def encode(event: Event) -> bytes:
    """Encode the event as a JSON object."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        # A lone surrogate, from a name or value that is not UTF-8, has no JSON.
        return msgspec.json.encode(_encodable(msgspec.to_builtins(event)))


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return [_encodable(item) for item in value]
        case dict():
            return {_encodable(name): _encodable(item) for name, item in value.items()}
    return value
