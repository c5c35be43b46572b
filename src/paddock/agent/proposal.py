"""An action that a tool wants to take, before anybody has decided on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from paddock.agent.exec_arguments import SandboxPermissions
from paddock.agent.permission import NONE, Permissions
from paddock.model.decision import Decision

INPUT_LIMIT: Final = 65_536
"""Characters of input, or of a change, that a question shows: more than a person reads before saying yes."""


class Proposal(Struct, frozen=True):
    """An action that a tool wants to take."""

    call_id: str
    tool: str
    command: tuple[str, ...]
    """The exact words, for the question and for the memory of answers."""
    cwd: str
    verdict: Decision | None = None
    """The rules' decision; None where there are no rules."""
    wish: SandboxPermissions = SandboxPermissions.USE_DEFAULT
    permissions: Permissions = NONE
    """The permissions requested with `WITH_ADDITIONAL_PERMISSIONS`."""
    justification: str | None = None
    prefix: tuple[str, ...] = ()
    """Commands that a rule could allow from now on."""
    is_terminal: bool = False
    shell_line: str | None = None
    """The line that the command hands to a shell, its program, if it is one."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables on top of what the executor gives every command."""

    stdin: str | None = None
    """Its input, if it is given any."""
    patch: str | None = None
    """The change that it makes to files, where it is that."""
    line: str | None = None
    """The line for the executor's own shell, if the action is one."""
    doubt: str | None = None
    """Why a rule that allows it does not hold."""
    programs: tuple[str, ...] = ()
    """The programs that the rules have allowed, as the line calls them; each must be what its name says."""
    is_dangerous: bool = False
    """Whether it looks destructive."""
    is_about_files: bool = False
    """Whether a tool uses the permissions to read or replace just the files that they name."""

    @property
    def doubt_of_rule(self) -> str | None:
        """Return why a rule that allows the words of a line does not allow it as it is; None if it does."""
        if self.line is None:
            return f"the model chose {self.command[0]} to run it"
        if self.stdin is not None:
            return "the rule says nothing about its input"
        if self.is_terminal:
            return "the model may type to it, and the rule says nothing about that"
        relative = [name for name in self.programs if "/" in name and not name.startswith("/")]
        return f"{relative[0]} is not an absolute path" if relative else None

    @property
    def unshown(self) -> str | None:
        """Return why nobody can be asked about it: a person who says yes must have seen all of it."""
        for text, name in ((self.stdin, "input"), (self.patch, "change")):
            if text is not None and len(text) > INPUT_LIMIT:
                return f"its {name} has more than {INPUT_LIMIT} characters, too many to show in a question"
        return None
