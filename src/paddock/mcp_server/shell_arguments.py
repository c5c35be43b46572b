"""The parameters and the fields of the tool `shell`. Pure."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from paddock.agent.tool import Tool
from paddock.c_string import refuse_nul

COMMAND_LIMIT: Final = 128 * 1024 - 1
"""Characters of a command: Linux passes no longer argument (MAX_ARG_STRLEN, execve(2))."""

DEFAULT_TIMEOUT_MS: Final = 10_000
MAX_TIMEOUT_MS: Final = 3_600_000
"""An hour: what takes longer belongs into a session of `exec_command`."""


class ShellArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `shell`."""

    command: Annotated[str, Meta(description="The Bash command line to run.", max_length=COMMAND_LIMIT)]
    workdir: Annotated[str, Meta(description="The directory to run it in, as an absolute path.")]
    timeout_ms: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_TIMEOUT_MS)] | None,
        Meta(
            description=(
                "Milliseconds until the command is killed; the output so far is returned. Default: 10000. "
                "Time that somebody takes to answer a question does not count. Some clients give up after "
                "60 seconds: for more, use exec_command."
            )
        ),
    ] = None
    login: Annotated[
        bool | None, Meta(description="Run Bash as a login shell (-lc instead of -c). Default: true.")
    ] = None

    def __post_init__(self) -> None:
        refuse_nul("command", self.command)
        refuse_nul("workdir", self.workdir)


class Duration(Struct, frozen=True, forbid_unknown_fields=True):
    """A time span; time spent on questions is part of it."""

    secs: int
    nanos: int


class DenialFields(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that the sandbox denied the command."""

    kind: Annotated[str, Meta(description="write, read, network, exec or syscall.")]
    reason: Annotated[str, Meta(description="What was denied, and by which rule of the profile.")]
    is_certain: Annotated[bool, Meta(description="False if Paddock inferred it from what the command wrote.")]
    target: Annotated[str | UnsetType, Meta(description="A path, an address or a system call.")] = UNSET
    permission: Annotated[
        str | UnsetType, Meta(description="The entry of a profile that would allow it.")
    ] = UNSET


class RuleOrigin(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a rule stands."""

    path: str
    line: int


class VerdictFields(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The verdict on a program that a rule or an answer decided on."""

    program: str
    argv: list[str]
    verdict: Annotated[
        str, Meta(description="run: in the sandbox; escalate: outside of it; deny: it did not run.")
    ]
    reason: str
    justification: Annotated[str | UnsetType, Meta(description="Why, in the words of the rule.")] = UNSET
    rule: Annotated[RuleOrigin | UnsetType, Meta(description="The rule that decided.")] = UNSET


class ShellFields(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The structured result of `shell`."""

    exit_code: Annotated[int, Meta(description="128 + n if signal n ended it; 124 if it timed out.")]
    output: Annotated[str, Meta(description="Everything that was printed, in order.")]
    duration: Duration
    timed_out: bool
    stdout: str
    stderr: str
    denials: Annotated[list[DenialFields], Meta(description="What the sandbox denied the command.")] = []
    verdicts: Annotated[
        list[VerdictFields], Meta(description="Programs that ran outside of the sandbox, or not at all.")
    ] = []
    more_verdicts: Annotated[int, Meta(description="How many more there were.")] = 0
    notes: Annotated[list[str], Meta(description="Further notes, one sentence each.")] = []


SHELL: Final = Tool(
    name="shell",
    description=(
        "Run a Bash command line in the sandbox and return its output. You MUST provide the workdir as an "
        "absolute path. Programs that a rule allows run outside of the sandbox; for others the user may be "
        "asked. What the sandbox or a rule denied is in the result, with the permission that would help."
    ),
    arguments=ShellArguments,
    output=ShellFields,
)
