"""Lets a patched Bash run a command, so that a wrapper asks about each program.

The patch (`patches/`) makes Bash execute paddock-execve-wrapper in place of each program. The wrapper asks
through a descriptor. Only Bash asks, and only about what it executes itself, so only commands of Bash can be
wrapped. Pure.
"""

from __future__ import annotations

import os
from typing import Final

from msgspec.structs import replace

from paddock.errors import SandboxUnavailable
from paddock.model.profile import Access
from paddock.native_program import native_path
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.path import ROOT

WRAPPER: Final = native_path("paddock-execve-wrapper")
SHELL: Final = native_path("paddock-bash")
"""Where `make bash` puts it."""

NAMES: Final = frozenset({"bash", "rbash", os.path.basename(SHELL)})
"""Names under which a program is Bash."""

SOCKET_NUMBER: Final = 250
"""The descriptor's number in the command. Bash itself uses small numbers, 63 and downwards, and 255."""

SOCKET_VARIABLES: Final = ("CODEX_ESCALATE_SOCKET", "PADDOCK_ESCALATE_SOCKET")


def wrapped(command: Command, shell: str) -> Command:
    """Put the patched shell in place of Bash. Raises SandboxUnavailable for any other program."""
    program = command.argv[0] if command.argv else ""
    if os.path.basename(program) not in NAMES:
        raise SandboxUnavailable(
            f"only what Bash executes can be intercepted here (wrapper), and {program!r} is not Bash",
            "start bash, or do not intercept; `paddock doctor` says why",
        )
    return replace(
        command,
        argv=[shell, *command.argv[1:]],
        arg0=program if command.arg0 is None else command.arg0,
        environment={**command.environment, **control_variables(shell)},
    )


def control_variables(shell: str) -> dict[str, str]:
    """Return the variables that the shell and the wrapper need."""
    return {
        "BASH_EXEC_WRAPPER": str(WRAPPER),
        "PADDOCK_EXEC_SHELL": shell,
        **dict.fromkeys(SOCKET_VARIABLES, str(SOCKET_NUMBER)),
    }


def require_programs(plan: Plan, shell: str) -> None:
    """Refuse a plan that hides the shell or the wrapper, or lets the command write one of them.

    Raises SandboxUnavailable.
    """
    table = AccessTable(plan.rules)
    for path in (shell, str(WRAPPER)):
        access = table.access_of(os.path.realpath(path))
        if access is Access.DENY:
            raise SandboxUnavailable(
                f"the profile hides {path}, which a command that is intercepted here (wrapper) executes",
                "grant read access to it",
            )
        # For a profile that lets everything be written, a path proves nothing.
        if access is Access.WRITE and table.access_of(ROOT) is not Access.WRITE:
            raise SandboxUnavailable(
                f"the profile lets the command write {path}, which intercepts what it executes",
                "grant another directory, or put it elsewhere",
            )
