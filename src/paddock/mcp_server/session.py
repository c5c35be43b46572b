"""One client's session: its sandbox, its commands, its calls.

On standard input there is one; over HTTP each session of the handshake era has its own, and stateless
requests share one, whose handles and answers only the token protects.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import unquote

import mcp_types as types
from msgspec import Struct

from paddock.agent.agent import Agent, Tools
from paddock.agent.approval import ApprovalDecision, ApprovalRequest, Approver
from paddock.agent.box_executor import BoxExecutor
from paddock.agent.exec_arguments import WRITE_STDIN
from paddock.agent.process_table import FIRST_ID, LAST_ID
from paddock.agent.program_rules import needed_params
from paddock.agent.reply import Reply
from paddock.agent.tool import decode_arguments
from paddock.client.box import Box
from paddock.client.confinement import Sandbox
from paddock.client.wire_path import local_name
from paddock.errors import PaddockError
from paddock.mcp_server.call_confinement import (
    CallConfinement,
    narrow_for_call,
    paths_of,
    written_paths_of,
)
from paddock.mcp_server.call_table import CallTable
from paddock.mcp_server.path_lookup import locate
from paddock.mcp_server.pending_call import PendingCall
from paddock.mcp_server.question_asker import QuestionAsker
from paddock.mcp_server.sandbox_state import SandboxState
from paddock.mcp_server.shell import ShellTerms, run_shell, words_of
from paddock.mcp_server.shell_arguments import SHELL, ShellArguments
from paddock.mcp_server.shell_questions import ShellQuestions, shell_policy
from paddock.mcp_server.shell_reply import ShellReply
from paddock.mcp_server.workplace import Terms, Workplace

MAX_POLL_S: Final = 45.0
"""The longest wait of one call without a command's end: some hosts give up after 60 s."""

AGENT_LIMIT: Final = 16
"""Profiles of one session that have tools at the same time; the one used longest ago makes room."""

NUMBER_LIMIT: Final = (LAST_ID - FIRST_ID) // 2
"""Session ids that are not given out again before half of them are used up."""


class Session:
    """The calls of one client. `aclose` ends them, and all commands."""

    def __init__(self, workplace: Workplace, terms: Terms, console: Approver | None = None) -> None:
        self._workplace = workplace
        self._terms = terms
        self._asker = QuestionAsker(terms.prompt_timeout_s, console)
        self._questions = ShellQuestions(workplace.questions, self._asker, workplace.rules)
        self.calls = CallTable()
        self.sandbox_state: SandboxState | None = None
        """The sandbox that the client wants for its calls until it says otherwise."""
        self._roots: tuple[str, ...] | None = None
        self._unnarrowed: CallConfinement | None = None
        """The confinement of calls whose client wants no sandbox of its own."""
        self._agents: OrderedDict[bytes, _OpenAgent] = OrderedDict()
        self._numbers: set[int] = set()
        self._opening = asyncio.Lock()

    @property
    def prompt_timeout_s(self) -> float:
        """Return how long the server waits for an answer."""
        return self._terms.prompt_timeout_s

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the tools that the server offers."""
        return self._terms.tools

    @property
    def wants_roots(self) -> bool:
        """Return whether to ask the client for its workspace: nobody else named one, and it was not asked
        yet.

        If the files are on another host, the client's directories mean nothing.
        """
        return self._terms.workspace is None and self._roots is None and not self._workplace.is_remote

    def take_roots(self, uris: Iterable[str]) -> None:
        """Take the client's roots for the workspace, as far as they are directories of this host."""
        paths = (unquote(uri.removeprefix("file://")) for uri in uris if uri.startswith("file:///"))
        self._roots = tuple(os.path.realpath(path) for path in paths if os.path.isdir(path))

    def forget_roots(self) -> None:
        """Ask the client again before the next call; running commands keep their sandbox."""
        self._roots = None

    # --- calls --------------------------------------------------------------

    def begin(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        no_prompt: str | None,
        state: SandboxState | None = None,
    ) -> PendingCall:
        """Start a call. Raises InvalidToolCall for wrong arguments, CallRejected for too many calls.

        `state` is the sandbox that the client wants for this call, in place of `sandbox_state`.
        """
        state = state or self.sandbox_state
        self.calls.admit()
        call = PendingCall(tool, no_prompt=no_prompt)
        if tool == SHELL.name:
            work = self._shell(call, decode_arguments(tool, arguments, ShellArguments), state)
        else:
            work = self._tool(call, arguments, state)
        self.calls.add(call)
        call.begin(work)
        return call

    async def _shell(
        self, call: PendingCall, arguments: ShellArguments, state: SandboxState | None
    ) -> types.CallToolResult:
        box = await self._workplace.box()
        confinement = await self._confinement(box, state)
        rules = self._workplace.rules
        if not confinement.is_restricted:
            argv = words_of(box, arguments)
            await self._questions.check_line(call, argv, arguments.command, arguments.workdir)
        policy = shell_policy(rules.policy, arguments.command)
        distrusted = (*confinement.distrusted, *rules.granted)
        terms = ShellTerms(
            sandbox=Sandbox(confinement.profile, confinement.roots) if confinement.is_restricted else None,
            intercept=needed_params(policy, on_prompt="ask", distrusted=distrusted),
            questions=self._questions,
        )
        return _rendered(await run_shell(box, call, arguments, terms))

    async def _tool(
        self, call: PendingCall, arguments: Mapping[str, Any], state: SandboxState | None
    ) -> types.CallToolResult:
        box = await self._workplace.box()
        tools = await self._tools(box, await self._confinement(box, state))
        if call.tool == WRITE_STDIN.name:
            tools = self._owner(arguments.get("session_id")) or tools
        return _rendered(await tools.call(call.tool, arguments, call_id=call.id))

    def _owner(self, session_id: object) -> Tools | None:
        """Return the tools that keep a command, whatever sandbox the call itself would have."""
        for agent in self._agents.values():
            if any(each.session_id == session_id for each in agent.tools.sessions):
                return agent.tools
        return None

    # --- where --------------------------------------------------------------

    async def _confinement(self, box: Box, state: SandboxState | None) -> CallConfinement:
        given = () if self._terms.workspace is None else (self._terms.workspace,)
        workspace = given or self._roots or (local_name(box.environment.cwd),)
        named = box.environment.temporary_directories
        profile, roots = self._terms.profile, (*workspace, *self._terms.extra_roots)
        tmpdir = local_name(named[0]) if named else None
        if state is None:
            if self._unnarrowed is None or self._unnarrowed.roots != roots:
                self._unnarrowed = narrow_for_call(profile, roots, None, tmpdir, {})
            return self._unnarrowed
        paths = paths_of(profile, roots, state, tmpdir)
        # For each call: the links of the host may have changed since the last one.
        files = box.fs.confined(Sandbox(profile, roots))
        found = await locate(files, paths, written_paths_of(state, tmpdir)) if paths else {}
        return narrow_for_call(profile, roots, state, tmpdir, found)

    async def _tools(self, box: Box, confinement: CallConfinement) -> Tools:
        """Return the tools for calls with this confinement. They keep their commands."""
        async with self._opening:
            known = self._agents.get(confinement.key)
            if known is not None and known.box is box:
                self._agents.move_to_end(confinement.key)
                return known.tools
            if known is not None:
                await self._agents.pop(confinement.key).stack.aclose()
            while len(self._agents) >= AGENT_LIMIT:
                await self._agents.popitem(last=False)[1].stack.aclose()
            opened = self._agents[confinement.key] = await self._opened(box, confinement)
            return opened.tools

    async def _opened(self, box: Box, confinement: CallConfinement) -> _OpenAgent:
        stack = AsyncExitStack()
        executor = BoxExecutor(box, is_owner=False, questions=self._workplace.questions.programs)
        agent = Agent(
            executor,
            profile=confinement.profile,
            rules=self._workplace.rules,
            approver=self._approve,
            cwd=confinement.cwd,
            roots=confinement.roots,
            distrusted=confinement.distrusted,
            allow_escalation=executor.intercepts,
            max_poll_s=MAX_POLL_S,
            choose_number=self._choose_number,
        )
        return _OpenAgent(box, await stack.enter_async_context(agent), stack)

    def _choose_number(self) -> int:
        """Return a session id that no agent of this session has, nor had lately."""
        if len(self._numbers) >= NUMBER_LIMIT:
            self._numbers = {
                each.session_id for agent in self._agents.values() for each in agent.tools.sessions
            }
        while (number := FIRST_ID + secrets.randbelow(LAST_ID - FIRST_ID + 1)) in self._numbers:
            pass
        self._numbers.add(number)
        return number

    async def _approve(self, request: ApprovalRequest) -> ApprovalDecision:
        call = self.calls.find(request.call_id)
        if call is None:
            raise PaddockError("the call that it belonged to is over")
        return await self._asker.ask(call, request)

    async def aclose(self) -> None:
        """End all calls and commands."""
        self.calls.aclose()
        for agent in self._agents.values():
            await agent.stack.aclose()
        self._agents.clear()


def _rendered(reply: Reply | ShellReply) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(text=reply.text)]
    if reply.is_error:
        return types.CallToolResult(content=content, is_error=True)
    return types.CallToolResult(content=content, structured_content=reply.fields, is_error=False)


class _OpenAgent(Struct, frozen=True):
    box: Box
    tools: Tools
    stack: AsyncExitStack
