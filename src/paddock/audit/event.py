"""Events that an audit log can tell. Pure values: a line of the log is one of these, numbered and chained.

An event names what it is about by ids, as far as it has them: the connection counts from the
start of the server, the session is the beginning of its id, the process and the request
are as the client called them. Secrets are taken out by the log itself (`redaction`), whoever
made the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from paddock.audit.chain import Anchor

Verdict = Literal["allow", "prompt", "forbidden"]


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Something that happened. The line leaves out what has no value."""

    connection: int | None = None
    session: str | None = None
    process: str | None = None
    request: int | str | None = None

    is_ending: ClassVar[bool] = False
    """Whether it ends what an earlier record began: there are no more of these than processes, and none
    is given up while the log can't be written."""


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
    """How many records could not be written in the meantime."""


class Closed(Event, frozen=True, kw_only=True, tag="closed"):
    """The server has ended in order."""


# --- clients and processes --------------------------------------------------


class SessionOpened(Event, frozen=True, kw_only=True, tag="session"):
    """A client has begun a session, or come back to it."""

    client: str
    peer: str
    resumed: bool = False
    operator: bool = False


class Confinement(Struct, frozen=True, kw_only=True):
    """The sandbox that a program is started in."""

    type: str
    level: str
    """How much of the profile this host enforces."""
    profile: str
    """The name that it was asked for by, or `sha256:` and the digest of the profile in JSON."""


class Start(Event, frozen=True, kw_only=True, tag="start"):
    """A program is about to be started."""

    argv: tuple[str, ...]
    """The program that is executed, and its arguments."""
    arg0: str | None = None
    """What it is told as its name, if that is not `argv[0]`."""
    cwd: str
    env: Mapping[str, str]
    terminal: bool = False
    sandbox: Confinement | None = None
    """What confines it; nothing if that is left out."""


class StartFailed(Event, frozen=True, kw_only=True, tag="start-failed"):
    """It was not started after all."""

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
    """Whether its sandbox probably made it fail; a `denial` before it tells what is known of that."""


class Lost(Event, frozen=True, kw_only=True, tag="lost"):
    """Nobody will ever know what became of a process."""

    is_ending: ClassVar[bool] = True
    reason: str


# --- what was allowed, and what was not -------------------------------------


class Decision(Event, frozen=True, kw_only=True, tag="decision"):
    """The rules were asked about a command."""

    argv: tuple[str, ...]
    cwd: str
    decision: Verdict
    rules: tuple[str, ...] = ()
    """Where the rules stand that matched."""
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

    Of two with the same `exec_id` the second counts: what was to run outside could not be let out.
    """

    exec_id: str
    program: str
    argv: tuple[str, ...]
    cwd: str
    verdict: Literal["run", "escalate", "deny"]
    reason: str
    rule: str | None = None
    """Where the rule stands that decided."""
    justification: str | None = None
    not_escalated: str | None = None
    """Why it runs in the sandbox though a rule or an answer would let it out."""


class Denial(Event, frozen=True, kw_only=True, tag="denial"):
    """A process was kept from something by its sandbox."""

    operation: str
    subject: str | None = None
    """The path, address or call, as the process saw it."""
    reason: str | None = None
    certain: bool = True
    """Whether it follows from the profile, and not from what the process wrote alone."""


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
"""What `kind` can be."""


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
