"""The outcome of `shell`: fields for programs, and a text that models read. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from paddock.agent.head_tail import HeadTail
from paddock.agent.truncation import cut
from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.client.inbox import Output
from paddock.mcp_server.shell_arguments import (
    DenialFields,
    Duration,
    RuleOrigin,
    ShellFields,
    VerdictFields,
)
from paddock.model.cause import Cause
from paddock.model.denial import NOT_NAMED, OWN, Denial, DenialKind
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.execution_note import ExecutionNote
from paddock.model.profile import NetworkMode
from paddock.model.stream import Stream
from paddock.model.verdict import Verdict

TIMED_OUT_STATUS: Final = 124
"""As timeout(1) has it."""

NANOS: Final = 1_000_000_000

_PROXIED: Final = f"network = {NetworkMode.PROXIED}"
"""How a rule begins that leaves nothing but the proxy."""

_LIMITS: Final = {
    Cause.MEMORY: "memoryBytes",
    Cause.CPU: "cpuSeconds",
    Cause.WALL: "wallSeconds",
    Cause.PROCESSES: "processes",
}


class ShellOutput:
    """The output of a command: in the order in which it arrived, and by stream. Each is bounded."""

    def __init__(self) -> None:
        self.both = HeadTail()
        self.stdout = HeadTail()
        self.stderr = HeadTail()

    def add(self, item: Output | Gap) -> None:
        """Take a piece, or note that one is lost."""
        if isinstance(item, Gap):
            self.both.add(b"\n[some output is lost: the connection was interrupted]\n")
            return
        self.both.add(item.data)
        (self.stderr if item.stream is Stream.STDERR else self.stdout).add(item.data)


class ShellReply(Struct, frozen=True):
    """The outcome of a call. A command that fails is an outcome like any other."""

    fields: dict[str, Any]
    is_error: bool = False

    @property
    def text(self) -> str:
        """Return the fields as JSON, without the streams apart, which would say everything twice."""
        shown = {name: value for name, value in self.fields.items() if name not in ("stdout", "stderr")}
        return msgspec.json.encode(shown).decode()


def shell_reply(
    output: ShellOutput,
    ending: Ending | None,
    *,
    duration_s: float,
    timed_out: bool,
    limit_tokens: int,
    notes: tuple[str, ...] = (),
) -> ShellReply:
    """Return the reply; `ending` is None if the end is not known, which the notes must then say."""
    execs = None if ending is None else ending.execs
    decided = [] if execs is None else [note for note in execs.notes if note.verdict is not Verdict.RUN]
    nanos = round(duration_s * NANOS)
    cause = None if ending is None else ending.cause
    if cause in _LIMITS:
        notes = (*notes, f"The limit {_LIMITS[cause]} of the profile ended it.")
    if ending is not None and ending.sandbox_denied and not ending.denials:
        notes = (*notes, "The sandbox probably made it fail; what it wrote says where.")
    status = TIMED_OUT_STATUS if timed_out else -1 if ending is None else ending.exit_code
    fields = ShellFields(
        exit_code=status,
        output=cut(output.both, limit_tokens).text,
        duration=Duration(secs=nanos // NANOS, nanos=nanos % NANOS),
        timed_out=timed_out,
        stdout=cut(output.stdout, limit_tokens).text,
        stderr=cut(output.stderr, limit_tokens).text,
        denials=[] if ending is None else [_denial(denial) for denial in ending.denials],
        verdicts=[_verdict(note) for note in decided],
        more_verdicts=0 if execs is None else max(0, execs.total - len(execs.notes)),
        notes=list(notes),
    )
    return ShellReply(msgspec.to_builtins(fields))


def _denial(denial: Denial) -> DenialFields:
    return DenialFields(
        kind=str(denial.kind),
        reason=_reason(denial),
        is_certain=denial.is_certain,
        target=UNSET if denial.target is None else denial.target,
        permission=_permission(denial) or UNSET,
    )


def _reason(denial: Denial) -> str:
    verb = "denies" if denial.is_certain else "may have denied"
    target = "" if denial.target is None else f" {denial.target}"
    rule = "" if denial.rule is None else f" ({denial.rule})"
    return f"the sandbox {verb} {denial.kind}{target}{rule}"


def _permission(denial: Denial) -> str | None:
    """Return the profile entry that would allow it; None if nothing would, or if that is not known."""
    rule = denial.rule
    if rule is None or rule.startswith(OWN):
        return None
    match denial.kind:
        case DenialKind.WRITE | DenialKind.READ | DenialKind.EXEC as kind:
            access = DenialKind.WRITE if kind is DenialKind.WRITE else DenialKind.READ
            # A new file needs its directory, so the path that was denied may not be enough.
            return None if denial.grant is None else f'{_written(denial.grant)} = "{access}"'
        case DenialKind.NETWORK if denial.endpoint is not None:
            return _host_permission(denial.endpoint, rule)
        case DenialKind.NETWORK:
            # A program that passes the proxy by needs the proxy, which the rule names, and no permission.
            return None if rule.startswith(_PROXIED) else 'network = "enabled"'
        case DenialKind.SYSCALL:
            return None


def _host_permission(endpoint: Endpoint, rule: str) -> str | None:
    if endpoint.protocol is NetworkProtocol.SOCKS5_UDP:
        return None
    if rule == NOT_NAMED:
        return f"network.allow = [{_written(str(endpoint))}]"
    return "network.allowLocal = true" if "allowLocal" in rule else None


def _written(text: str) -> str:
    """Write a text as TOML and JSON do."""
    return msgspec.json.encode(text).decode()


def _verdict(note: ExecutionNote) -> VerdictFields:
    return VerdictFields(
        program=note.program,
        argv=list(note.argv),
        verdict=str(note.verdict),
        reason=note.reason,
        justification=UNSET if note.justification is None else note.justification,
        rule=UNSET if note.origin is None else RuleOrigin(path=note.origin.path, line=note.origin.line),
    )
