"""The parameters and the fields of `exec_command` and `write_stdin`. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from paddock.agent.tool import Tool

Text = Annotated[str, Meta(max_length=1_000_000)]


class SandboxPermissions(StrEnum):
    """The permissions that a model requests for a command."""

    USE_DEFAULT = "use_default"
    WITH_ADDITIONAL_PERMISSIONS = "with_additional_permissions"
    REQUIRE_ESCALATED = "require_escalated"


class NetworkWish(Struct, frozen=True, forbid_unknown_fields=True):
    """What a command needs of the network."""

    enabled: bool = False


class FileWish(Struct, frozen=True, forbid_unknown_fields=True):
    """What a command needs of files, by absolute path; a directory stands for everything in it."""

    read: list[str] = []
    write: list[str] = []


class AdditionalPermissions(Struct, frozen=True, forbid_unknown_fields=True):
    """What a command needs beyond its profile."""

    network: NetworkWish = NetworkWish()
    file_system: FileWish = FileWish()


class WaitFor(Struct, frozen=True, forbid_unknown_fields=True):
    """The events to return for, before the yield time is over."""

    pattern: Annotated[
        str | UnsetType, Meta(description="Return when a line of new output matches this regular expression.")
    ] = UNSET
    idle_ms: Annotated[
        float | UnsetType,
        Meta(description="Return when there has been no output for this many milliseconds."),
    ] = UNSET


WaitForParameter = Annotated[
    WaitFor | UnsetType,
    Meta(description="Return earlier than yield_time_ms: at a line that matches, or when it falls silent."),
]
TokensParameter = Annotated[
    float | UnsetType, Meta(description="Maximum number of tokens to return. Default: 10000.")
]


class ExecArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `exec_command`."""

    cmd: Annotated[Text, Meta(description="Shell command line to run.")]
    workdir: Annotated[
        str, Meta(description="Directory to run it in; relative to the session's. Default: the session's.")
    ] = ""
    tty: Annotated[
        bool,
        Meta(
            description="Run it on a terminal, so that you can type to it with write_stdin. Default: false."
        ),
    ] = False
    stdin: Annotated[
        Text | UnsetType,
        Meta(description="Text that the command reads as its whole standard input. Default: nothing."),
    ] = UNSET
    yield_time_ms: Annotated[
        float | UnsetType,
        Meta(
            description="How long to wait for it to end, 250 to 30000. Default: 10000. It runs on after that."
        ),
    ] = UNSET
    wait_for: WaitForParameter = UNSET
    max_output_tokens: TokensParameter = UNSET
    shell: Annotated[
        str | UnsetType, Meta(description="Path of another shell that takes -c. Default: the user's shell.")
    ] = UNSET
    login: Annotated[
        bool | UnsetType,
        Meta(description="Run the shell as a login shell. Ignored outside of the sandbox. Default: true."),
    ] = UNSET
    sandbox_permissions: Annotated[
        SandboxPermissions,
        Meta(
            description=(
                "use_default; with_additional_permissions to ask for what additional_permissions names; "
                "require_escalated to ask for a run without the sandbox."
            )
        ),
    ] = SandboxPermissions.USE_DEFAULT
    additional_permissions: Annotated[
        AdditionalPermissions | UnsetType,
        Meta(description="What the command needs; only with with_additional_permissions."),
    ] = UNSET
    justification: Annotated[
        str | UnsetType,
        Meta(description="One short question to the user that says why; with a request for permissions."),
    ] = UNSET
    prefix_rule: Annotated[
        list[str] | UnsetType,
        Meta(
            description=(
                'First words of commands to allow from now on, such as ["git", "pull"]; '
                "only with require_escalated."
            )
        ),
    ] = UNSET


class StdinArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of `write_stdin`."""

    session_id: Annotated[float, Meta(description="The session_id that exec_command returned.")]
    chars: Annotated[
        Text,
        Meta(
            description=(
                "What to type; empty to wait for output only. \\u0003 interrupts. Other text needs a session "
                "that was started with tty."
            )
        ),
    ] = ""
    yield_time_ms: Annotated[
        float | UnsetType,
        Meta(description="How long to wait: 250 to 30000, default 250; without chars 5000 to 300000."),
    ] = UNSET
    wait_for: WaitForParameter = UNSET
    max_output_tokens: TokensParameter = UNSET


class ExecFields(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The reply of both tools, beside its text."""

    wall_time_seconds: float
    output: str
    chunk_id: str | UnsetType = UNSET
    exit_code: Annotated[int | UnsetType, Meta(description="Only if the command has ended.")] = UNSET
    session_id: Annotated[int | UnsetType, Meta(description="Only while it still runs.")] = UNSET
    original_token_count: int | UnsetType = UNSET


EXEC_COMMAND: Final = Tool(
    name="exec_command",
    description=(
        "Run a shell command in the sandbox. If it still runs when the yield time is over, the reply has a "
        "session_id: ask for more with write_stdin, and rather than poll, name in wait_for what you wait for."
    ),
    arguments=ExecArguments,
    output=ExecFields,
    hidden=("login",),
)
"""Where there are no login shells."""

EXEC_COMMAND_WITH_LOGIN: Final = replace(EXEC_COMMAND, hidden=())

WRITE_STDIN: Final = Tool(
    name="write_stdin",
    description=(
        "Type to a command that still runs, or wait for its output with empty chars: until it ends, until "
        "the yield time is over, or until what wait_for names has happened."
    ),
    arguments=StdinArguments,
    output=ExecFields,
)
