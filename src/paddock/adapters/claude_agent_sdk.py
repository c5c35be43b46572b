"""Paddock as the permissions of the Claude Agent SDK: commands in a sandbox, a profile for tools with files.

    from paddock.adapters.claude_agent_sdk import PaddockPermissions

    permissions = PaddockPermissions()
    options = ClaudeAgentOptions(
        hooks={"PreToolUse": [HookMatcher(hooks=[permissions.pre_tool_use], on_failure="block")]},
        can_use_tool=permissions.can_use_tool,
    )

Claude Code runs its tools itself. So this module changes a command into one that runs it in a sandbox, and
refuses a file tool any path that the sandbox would keep from a command. It starts nothing. No tool may change
what the next Claude Code in the directory obeys, outside of any sandbox.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from paddock.adapters.confined_line import confined_command
from paddock.adapters.outcome import SHELL, denied_file, forbidden, not_approved, unreadable_rules
from paddock.adapters.planned_access import PlannedAccess
from paddock.adapters.tool_path import may_lead_out, other_paths, places, split_pattern
from paddock.agent.command_rules import CommandRules
from paddock.agent.permission import Permissions, Reach, confinement_of, granted_profile, reach_of
from paddock.client.workspace import PROFILE
from paddock.errors import InvalidProfile, PaddockError, RulesError
from paddock.model.decision import Action
from paddock.model.denial import DenialKind
from paddock.model.profile import Access, Profile

RUNNING: Final = frozenset({"Bash", "Monitor"})
"""Tools of Claude Code that run a line of shell, which is their argument `command`."""

UNCONFINED: Final = frozenset({"PowerShell"})
"""Tools that run lines which no sandbox can be put around."""

WRITING: Final = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
"""Tools of Claude Code that change a file, and the argument that names it."""

READING: Final = {"Read": "file_path", "LS": "path", "LSP": "filePath", "NotebookRead": "notebook_path"}
"""Tools that read a file or list a directory, and the argument that names it."""

SEARCHING: Final = {"Glob": "path", "Grep": "path"}
"""Tools that read whatever is below a directory. Without the argument, that is the agent's."""

OBEYED: Final = (".claude", ".mcp.json")
"""Settings of a project, with commands that Claude Code runs: hooks, and servers of tools. It looks for them
in directories below a project too, once it works there."""

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
        # Not the agent's current directory: it would carry its rights along wherever it goes.
        self._root = os.path.realpath(directory or os.getcwd())
        own = _keeping_settings(profile, self._root)
        self._profile = own if isinstance(own, str) else msgspec.json.encode(own).decode()
        reach = _reach(own, self._root)
        self._planned = PlannedAccess(_known(own), self._root, reach, OBEYED)
        self._ask = ask
        self._confined: OrderedDict[str, str] = OrderedDict()

    async def pre_tool_use(self, input: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Answer a `PreToolUse` hook. Use it with `on_failure="block"`."""
        cwd = input.get("cwd") or self._root
        verdict = await self._decided(input["tool_name"], input["tool_input"], cwd)
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

        verdict = await self._decided(tool_name, tool_input, self._root)
        if verdict.decision == "deny":
            return PermissionResultDeny(message=verdict.reason)
        if verdict.decision != "allow":
            why = verdict.reason or f"{tool_name} is not a tool that runs in the sandbox"
            if self._ask is None or not await self._ask(tool_name, tool_input, why):
                return PermissionResultDeny(message=not_approved(why))
        return PermissionResultAllow(updated_input=verdict.input)

    async def _decided(self, tool: str, input: Mapping[str, Any], cwd: str) -> Verdict:
        if tool not in RUNNING:
            return await asyncio.to_thread(self.decide, tool, input, cwd)
        if self._rules is not None:
            line = str(input.get("command") or "")
            await self._rules.look_at(self._confined.get(line, line))
        return self.decide(tool, input, cwd)

    def decide(self, tool: str, input: Mapping[str, Any], cwd: str) -> Verdict:
        """Return the verdict on a tool call. Blocks while it looks at files."""
        if tool in UNCONFINED:
            return Verdict("deny", f"{tool} does not run in the sandbox; use Bash, which does.")
        if tool == "Monitor" and "command" not in input:
            # It watches a WebSocket, as `WebFetch` fetches a page.
            return Verdict(None)
        if tool in RUNNING:
            return self._line(input, cwd)
        if tool in WRITING:
            return self._file(DenialKind.WRITE, tool, WRITING[tool], input, cwd)
        if tool in READING:
            return self._file(DenialKind.READ, tool, READING[tool], input, cwd)
        if tool in SEARCHING:
            return self._search(tool, input, cwd)
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

    def _search(self, tool: str, input: Mapping[str, Any], cwd: str) -> Verdict:
        names = [str(input.get(SEARCHING[tool]) or "")]
        if tool == "Glob":
            # A pattern may name another place, and then the path does not count.
            begin, rest = split_pattern(str(input.get("pattern") or ""))
            names = [os.path.join(names[0], each) for each in (begin, os.path.expanduser(begin))]
            if may_lead_out(rest):
                told = f"The pattern may lead out of {names[0] or cwd}; write it without that."
                return Verdict("deny", told)
        return _strictest(self._searched, [*names, *other_paths(input, SEARCHING[tool])], cwd)

    def _searched(self, path: str) -> Verdict:
        if self._planned.grants_tree(path):
            return _GRANTED
        if not self._planned.grants(path, Access.READ):
            return Verdict("deny", denied_file(DenialKind.READ, path, self._root))
        if os.path.isfile(path):
            return _GRANTED
        way_out = "search with a command of Bash instead, such as rg, which the sandbox keeps from that"
        return Verdict("deny", f"A sandbox denies something below {path}; {way_out}.")

    def _file(
        self, kind: DenialKind, tool: str, argument: str, input: Mapping[str, Any], cwd: str
    ) -> Verdict:
        wanted = Access.WRITE if kind is DenialKind.WRITE else Access.READ
        name = input.get(argument)
        if not isinstance(name, str) or not name:
            # Whatever the tool does then, it does not do it to a file that was judged.
            return Verdict("deny", f"{tool} names no file; name it in `{argument}`.")

        def opened(path: str) -> Verdict:
            is_granted = self._planned.grants(path, wanted)
            return _GRANTED if is_granted else Verdict("deny", denied_file(kind, path, self._root))

        return _strictest(opened, [name, *other_paths(input, argument)], cwd)


_GRANTED: Final = Verdict("allow", "The profile grants it.")


def _strictest(judged: Callable[[str], Verdict], names: Iterable[str], cwd: str) -> Verdict:
    """Return the verdict on all places that names may lead to: the first that is no yes."""
    try:
        verdicts = map(judged, places(names, cwd))
        return next((each for each in verdicts if each.decision != "allow"), _GRANTED)
    except PaddockError as error:
        return Verdict("deny", f"No command could start here now: {error}")
    except (OSError, ValueError) as error:
        return Verdict("deny", f"It is not known where the path leads: {error}")


def _keeping_settings(profile: str | Mapping[str, Any], root: str) -> str | Mapping[str, Any]:
    """Return the profile without the right to change the project's settings of Claude Code.

    A profile that names them keeps its right: of two entries about one path, writing wins over reading.
    """
    reach = _reach(profile, root)
    paths = tuple(path for name in OBEYED if reach.grants(path := os.path.join(root, name), Access.WRITE))
    return granted_profile(profile, Permissions(read=paths)) if paths and reach.table is not None else profile


def _reach(profile: str | Mapping[str, Any], root: str) -> Reach:
    _known(profile)
    return reach_of(confinement_of(profile), [root], os.environ.get("TMPDIR"))


def _known(profile: str | Mapping[str, Any]) -> Profile:
    known = confinement_of(profile).profile
    if known is None:
        raise InvalidProfile(str(profile), "only a server knows it; write the profile out")
    return known
