"""Paddock as the permissions of the Claude Agent SDK: Bash in a sandbox, a profile for tools that use files.

    from paddock.adapters.claude_agent_sdk import PaddockPermissions

    permissions = PaddockPermissions()
    options = ClaudeAgentOptions(
        hooks={"PreToolUse": [HookMatcher(hooks=[permissions.pre_tool_use], on_failure="block")]},
        can_use_tool=permissions.can_use_tool,
    )

Claude Code runs its tools itself. So this module changes a Bash command into one that runs it in a sandbox,
and refuses a file tool any path that the profile does not grant. It starts nothing.
"""

from __future__ import annotations

import os
import shlex
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from paddock.adapters.confined_line import confined_command
from paddock.adapters.outcome import SHELL, denied_file, forbidden, not_approved, unreadable_rules
from paddock.agent.command_rules import CommandRules
from paddock.agent.permission import confinement_of, reach_of
from paddock.client.workspace import PROFILE
from paddock.errors import InvalidProfile, RulesError
from paddock.model.decision import Action
from paddock.model.denial import DenialKind
from paddock.model.profile import Access

WRITING: Final = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
"""Tools of Claude Code that change a file, and the argument that names it."""

READING: Final = {"Read": "file_path", "Glob": "path", "Grep": "path", "LS": "path"}
"""Tools that read a file or a directory. Without the argument, they read the agent's directory."""

REMEMBERED: Final = 1000
"""Commands that were confined before; the SDK may ask about one twice."""

Ask = Callable[[str, Mapping[str, Any], str], Awaitable[bool]]
"""Asks a person whether a tool may do this, and says why."""


class Verdict(Struct, frozen=True):
    """The verdict on a tool call."""

    decision: str | None
    """`allow`, `deny` or `ask`, as hooks say it; None if the tool does not concern Paddock."""
    reason: str = ""
    input: dict[str, Any] | None = None
    """The input that replaces the tool's own."""


class PaddockPermissions:
    """Decides on the tools of one agent, in a directory of this host that is its workspace.

    `rules` say which commands are forbidden or asked about. `ask` answers for `can_use_tool`; without it,
    calls that need a person's answer are refused.
    """

    def __init__(
        self,
        rules: CommandRules | None = None,
        *,
        profile: str | Mapping[str, Any] = PROFILE,
        directory: str | None = None,
        ask: Ask | None = None,
    ) -> None:
        self._rules = rules
        self._profile = profile if isinstance(profile, str) else msgspec.json.encode(profile).decode()
        # Not the agent's current directory: it would carry its rights along wherever it goes.
        self._root = os.path.realpath(directory or os.getcwd())
        confinement = confinement_of(profile)
        if confinement.profile is None:
            raise InvalidProfile(self._profile, "only a server knows it; write the profile out")
        self._reach = reach_of(confinement, [self._root], os.environ.get("TMPDIR"))
        self._ask = ask
        self._confined: OrderedDict[str, str] = OrderedDict()

    async def pre_tool_use(self, input: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Answer a `PreToolUse` hook. Use it with `on_failure="block"`."""
        await self._look_at(input["tool_name"], input["tool_input"])
        verdict = self.decide(input["tool_name"], input["tool_input"], input.get("cwd") or self._root)
        if verdict.decision is None:
            return {}
        output: dict[str, Any] = {
            "hookEventName": "PreToolUse",
            "permissionDecision": verdict.decision,
            "permissionDecisionReason": verdict.reason,
        }
        if verdict.input is not None:
            output["updatedInput"] = verdict.input
        return {"hookSpecificOutput": output}

    async def can_use_tool(self, tool_name: str, tool_input: dict[str, Any], context: Any) -> Any:
        """Answer a permission request of the SDK."""
        from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny

        await self._look_at(tool_name, tool_input)
        verdict = self.decide(tool_name, tool_input, self._root)
        if verdict.decision == "deny":
            return PermissionResultDeny(message=verdict.reason)
        if verdict.decision != "allow":
            why = verdict.reason or f"{tool_name} is not a tool that runs in the sandbox"
            if self._ask is None or not await self._ask(tool_name, tool_input, why):
                return PermissionResultDeny(message=not_approved(why))
        return PermissionResultAllow(updated_input=verdict.input)

    async def _look_at(self, tool: str, input: Mapping[str, Any]) -> None:
        if tool == "Bash" and self._rules is not None:
            line = str(input.get("command") or "")
            await self._rules.look_at(self._confined.get(line, line))

    def decide(self, tool: str, input: Mapping[str, Any], cwd: str) -> Verdict:
        """Return the verdict on a tool call."""
        if tool == "Bash":
            return self._line(input, cwd)
        if tool in WRITING:
            return self._file(DenialKind.WRITE, str(input.get(WRITING[tool]) or ""), cwd)
        if tool in READING:
            return self._file(DenialKind.READ, str(input.get(READING[tool]) or ""), cwd)
        return Verdict(None)

    def _line(self, input: Mapping[str, Any], cwd: str) -> Verdict:
        line = str(input.get("command") or "")
        line = self._confined.get(line, line)
        changed = {**input, "command": self._confine(line)}
        if self._rules is None:
            return Verdict("allow", "It runs in the sandbox.", changed)
        try:
            decision = self._rules.decide([*SHELL, line], line, cwd)
        except RulesError as error:
            return Verdict("deny", unreadable_rules(error))
        if decision.action is Action.FORBIDDEN:
            return Verdict("deny", forbidden(decision))
        if decision.action is Action.PROMPT:
            return Verdict("ask", decision.reason, changed)
        return Verdict("allow", "It runs in the sandbox.", changed)

    def _confine(self, line: str) -> str:
        command = shlex.join(confined_command(self._profile, self._root, line))
        self._confined[command] = line
        if len(self._confined) > REMEMBERED:
            self._confined.popitem(last=False)
        return command

    def _file(self, kind: DenialKind, name: str, cwd: str) -> Verdict:
        path = os.path.realpath(os.path.join(cwd, os.path.expanduser(name)))
        if not self._reach.grants(path, Access.WRITE if kind is DenialKind.WRITE else Access.READ):
            return Verdict("deny", denied_file(kind, path, self._root))
        return Verdict("allow", "The profile grants it.")
