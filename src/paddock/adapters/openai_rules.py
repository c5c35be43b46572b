"""Rules for the shell of an agent of the OpenAI Agents SDK.

    from agents.sandbox.capabilities import Shell
    from paddock.adapters.openai_rules import ShellRules

    shell = Shell(configure_tools=ShellRules(rules))

A command that the rules ask about interrupts the run until somebody approves it. A command that they forbid
does not run, and the model reads why: nobody can approve it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agents import ToolGuardrailFunctionOutput, ToolInputGuardrail

from paddock.adapters.outcome import forbidden, not_approved, unreadable_rules
from paddock.agent.command_rules import CommandRules
from paddock.errors import RulesError
from paddock.model.decision import Action, Decision

SHELL: Final = "sh"
"""The shell of a command that names none."""


class ShellRules:
    """Puts the `exec_command` of a `Shell` under rules: give it as `configure_tools`."""

    def __init__(self, rules: CommandRules) -> None:
        self._rules = rules

    def __call__(self, tools: Any) -> None:
        """Set what the SDK asks before it runs a command."""
        tool = tools.exec_command
        tool.needs_approval = self._needs_approval
        before = tool.tool_input_guardrails or []
        tool.tool_input_guardrails = [*before, ToolInputGuardrail(self._guard, name="paddock rules")]

    def refusal(self, interruption: Any) -> str:
        """Return the words for a model whose command a person refuses: the `rejection_message` of
        `state.reject`."""
        return not_approved(self._decide(json.loads(interruption.arguments)).reason)

    async def _needs_approval(self, context: Any, arguments: Mapping[str, Any], call_id: str) -> bool:
        try:
            await self._rules.look_at(str(arguments.get("cmd") or ""))
            return self._decide(arguments).action is Action.PROMPT
        except RulesError:
            # The guard refuses it, in words.
            return False

    async def _guard(self, data: Any) -> Any:
        """Refuse a command that the rules forbid, with a reason for the model."""
        arguments = json.loads(data.context.tool_arguments)
        try:
            await self._rules.look_at(str(arguments.get("cmd") or ""))
            decision = self._decide(arguments)
        except RulesError as error:
            return ToolGuardrailFunctionOutput.reject_content(unreadable_rules(error))
        if decision.action is Action.FORBIDDEN:
            return ToolGuardrailFunctionOutput.reject_content(forbidden(decision))
        return ToolGuardrailFunctionOutput.allow()

    def _decide(self, arguments: Mapping[str, Any]) -> Decision:
        line = str(arguments.get("cmd") or "")
        # The shell is a program of the model's choice, which a rule may be about.
        shell = str(arguments.get("shell") or SHELL)
        argv = [shell, "-lc" if arguments.get("login", True) else "-c", line]
        return self._rules.decide(argv, line, str(arguments.get("workdir") or "/"))
