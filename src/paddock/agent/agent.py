"""The entry point for agent builders: a target, a profile and an approver in, tools for a model out."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias
from uuid import uuid4

from paddock.agent.approval import Approver
from paddock.agent.approval_asker import ApprovalAsker
from paddock.agent.approval_policy import ApprovalPolicy, Granular, parse_policy
from paddock.agent.approver import deny_all
from paddock.agent.box_executor import open_executor
from paddock.agent.command_rules import CommandRules, load_rules
from paddock.agent.command_session import CommandSession
from paddock.agent.event import EventHub, EventReader
from paddock.agent.exec_arguments import (
    EXEC_COMMAND,
    EXEC_COMMAND_WITH_LOGIN,
    WRITE_STDIN,
    ExecArguments,
    StdinArguments,
)
from paddock.agent.exec_request import MAX_POLL_S
from paddock.agent.executor import Executor
from paddock.agent.file_arguments import (
    APPLY_PATCH,
    EDIT_FILE,
    LIST_FILES,
    READ_FILE,
    SEARCH_FILES,
    EditArguments,
    ListArguments,
    PatchArguments,
    ReadArguments,
    SearchArguments,
)
from paddock.agent.file_tools import FileTools
from paddock.agent.orchestrator import Orchestrator
from paddock.agent.patch_command import patch_command
from paddock.agent.permission import confinement_of, reach_of
from paddock.agent.program_trust import ProgramTrust
from paddock.agent.reply import ExecReply, Reply
from paddock.agent.tool import SchemaFormat, decode_arguments, parse_format
from paddock.agent.truncation import DEFAULT_TOKENS, REFUSAL_TOKENS, cut_text
from paddock.agent.unified_exec import UnifiedExec
from paddock.client.box import Box
from paddock.client.connect import Connecting
from paddock.errors import InvalidToolCall, PaddockError
from paddock.rules.policy import Policy

TOOLS: Final = (EXEC_COMMAND, WRITE_STDIN, READ_FILE, EDIT_FILE, SEARCH_FILES, LIST_FILES, APPLY_PATCH)

Arguments: TypeAlias = Mapping[str, Any] | str
"""The arguments that a model gives a tool: an object, or its JSON."""


class Tools:
    """The tools of an open agent. Calls may run side by side."""

    def __init__(
        self, unified_exec: UnifiedExec, files: FileTools, events: EventHub, *, has_login: bool
    ) -> None:
        self._exec = unified_exec
        self._files = files
        self._events = events
        self._declared = (EXEC_COMMAND_WITH_LOGIN if has_login else EXEC_COMMAND, *TOOLS[1:])
        self._handlers: dict[str, Callable[[str, Arguments], Awaitable[Reply]]] = {
            EXEC_COMMAND.name: self._exec_command,
            WRITE_STDIN.name: self._write_stdin,
            READ_FILE.name: self._read_file,
            EDIT_FILE.name: self._edit_file,
            SEARCH_FILES.name: self._search_files,
            LIST_FILES.name: self._list_files,
            APPLY_PATCH.name: self._apply_patch,
        }

    async def call(self, name: str, arguments: Arguments, *, call_id: str | None = None) -> Reply:
        """Carry out a model's call; give the reply's `text` back to the model.

        `arguments` is an object, or its JSON as the model wrote it. Events name the call by `call_id`. The
        reply reports failures with `is_error`: invalid arguments, a refusal, a missing file, a lost
        connection. If the call is cancelled, a running command keeps running; `sessions` has it.
        """
        handler = self._handlers.get(name)
        try:
            if handler is None:
                raise InvalidToolCall(name, f"there is no such tool; there are {', '.join(self._handlers)}")
            return await handler(call_id or uuid4().hex, arguments)
        except PaddockError as error:
            return Reply(cut_text(f"{name} failed: {error}", REFUSAL_TOKENS), is_error=True)

    def schemas(self, wanted: str | SchemaFormat) -> list[dict[str, Any]]:
        """Return the declarations of all tools in a format.

        "openai" is the format of the Responses API, and "openai-chat" that of Chat Completions. "anthropic"
        and "mcp" have one format each. Raises ValueError for any other name.
        """
        known = parse_format(wanted)
        return [tool.schema(known) for tool in self._declared]

    def events(self) -> EventReader:
        """Return a reader of what happens from now on; iterate over it with `async for`."""
        return self._events.reader()

    @property
    def sessions(self) -> list[CommandSession]:
        """Return the commands that still run, or that ended after their last call."""
        return self._exec.sessions

    def terminate(self, session_id: int) -> bool:
        """End a command that still runs. Return whether there was one with this number."""
        return self._exec.terminate(session_id)

    def terminate_all(self) -> int:
        """End all commands that still run, and return how many there were."""
        return sum(self.terminate(session.session_id) for session in self.sessions if session.is_running)

    # --- one method for each tool -------------------------------------------

    async def _exec_command(self, call_id: str, arguments: Arguments) -> Reply:
        wanted = decode_arguments(EXEC_COMMAND.name, arguments, ExecArguments)
        if (patch := patch_command(wanted.cmd)) is not None:
            directory = posixpath.join(wanted.workdir, patch.directory)
            done = await self._files.apply_patch(call_id, patch.patch, directory)
            return ExecReply(output=f"{done.text}\n", wall_time_s=0.0, exit_code=0)
        return await self._exec.exec_command(call_id, wanted)

    async def _write_stdin(self, call_id: str, arguments: Arguments) -> Reply:
        return await self._exec.write_stdin(decode_arguments(WRITE_STDIN.name, arguments, StdinArguments))

    async def _read_file(self, call_id: str, arguments: Arguments) -> Reply:
        return await self._files.read_file(
            call_id, decode_arguments(READ_FILE.name, arguments, ReadArguments)
        )

    async def _edit_file(self, call_id: str, arguments: Arguments) -> Reply:
        return await self._files.edit_file(
            call_id, decode_arguments(EDIT_FILE.name, arguments, EditArguments)
        )

    async def _search_files(self, call_id: str, arguments: Arguments) -> Reply:
        return await self._files.search_files(
            call_id, decode_arguments(SEARCH_FILES.name, arguments, SearchArguments)
        )

    async def _list_files(self, call_id: str, arguments: Arguments) -> Reply:
        return await self._files.list_files(
            call_id, decode_arguments(LIST_FILES.name, arguments, ListArguments)
        )

    async def _apply_patch(self, call_id: str, arguments: Arguments) -> Reply:
        patch = decode_arguments(APPLY_PATCH.name, arguments, PatchArguments)
        return await self._files.apply_patch(call_id, patch.input)


class Agent:
    """Tools for a model, as a context manager.

        async with paddock.Agent(url, profile=":workspace", approver=ask, cwd="/work") as tools:
            reply = await tools.call("exec_command", {"cmd": "make test"})

    `target` is the URL of a server, `paddock.connect(...)` with a token or certificates, an open `Box`, an
    `Executor`, or None for a private server on this host. `profile` confines all commands and files. The
    workspace is `cwd`, by default the executor's own directory, or the directories in `roots`. `rules` is a
    policy, rules that several agents share, or the paths of files with rules; the agent writes an approval
    for always to `amended_file`. It asks `approver` as `approval_policy` says: "untrusted", "on-request",
    "on-failure", "never" or a `Granular`. Without an approver every answer is no. If nobody answers within
    `approval_timeout_s`, the agent tells the model so. With `trace` the executor watches what the sandbox
    refuses: commands run slower, and more denials are certain.

    With `allow_escalation` the rules decide on each program that a command executes in its sandbox. A program
    that they allow leaves the sandbox, if the server's own settings permit it. If they want approval for a
    program, the question is about that program alone. With `allow_login_shell` commands run in a login shell
    unless the model says otherwise. `max_output_tokens` bounds every reply. The agent calls `when_ended` with
    a command that ends while no call waits for it. Commands of other agents may write the directories in
    `distrusted`, so no rule lets a program out from there. `choose_number` returns session ids to try. At the
    end of the block the agent ends all its commands; a box or executor of yours stays open.

    Opening it raises ConnectError, RulesError and, for options that do not go together, ValueError.
    """

    def __init__(
        self,
        target: str | Connecting | Box | Executor | None = None,
        *,
        profile: str | Mapping[str, Any] = ":workspace",
        rules: Policy | CommandRules | Iterable[str | Path] | None = None,
        amended_file: Path | None = None,
        approver: Approver = deny_all,
        approval_policy: str | Granular = ApprovalPolicy.ON_REQUEST,
        approval_timeout_s: float | None = None,
        cwd: str | None = None,
        trace: bool = False,
        allow_escalation: bool = False,
        allow_login_shell: bool = False,
        max_output_tokens: int = DEFAULT_TOKENS,
        max_poll_s: float = MAX_POLL_S,
        when_ended: Callable[[CommandSession], None] | None = None,
        roots: Sequence[str] = (),
        distrusted: Sequence[str] = (),
        choose_number: Callable[[], int] | None = None,
    ) -> None:
        if max_output_tokens < 1:
            raise ValueError(
                f"max_output_tokens is {max_output_tokens}; the model must be able to read something"
            )
        if allow_escalation and rules is None:
            raise ValueError("allow_escalation lets out what rules allow; give rules too")
        self._target = target
        self._confinement = confinement_of(profile)
        self._rules = rules
        self._amended_file = amended_file
        self._approver = approver
        self._policy = parse_policy(approval_policy)
        self._approval_timeout_s = approval_timeout_s
        self._cwd = cwd
        self._traces = trace
        self._allow_escalation = allow_escalation
        self._allow_login_shell = allow_login_shell
        self._max_output_tokens = max_output_tokens
        self._max_poll_s = max_poll_s
        self._when_ended = when_ended
        self._roots = tuple(roots)
        self._distrusted = tuple(distrusted)
        self._choose_number = choose_number
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Tools:
        async with AsyncExitStack() as stack:
            executor = await open_executor(self._target, allow_escalation=self._allow_escalation)
            stack.push_async_callback(executor.aclose)
            if self._allow_escalation and not executor.intercepts:
                raise ValueError(
                    "allow_escalation needs an executor that decides on each program; this one does not"
                )
            # Files of rules are evaluated in a child, which is waited for.
            rules = await asyncio.to_thread(load_rules, self._rules, self._amended_file)
            events = EventHub()
            stack.callback(events.close)
            cwd = posixpath.normpath(posixpath.join(executor.cwd, self._cwd or ""))
            asker = ApprovalAsker(
                self._approver, events, executor.identity, rules=rules, timeout_s=self._approval_timeout_s
            )
            roots = self._roots or (cwd,)
            reach = reach_of(self._confinement, roots, executor.temporary_directory)
            orchestrator = Orchestrator(
                executor,
                self._confinement,
                roots,
                policy=self._policy,
                asker=asker,
                rules=rules,
                trust=ProgramTrust(executor, reach, self._distrusted),
                reach=reach,
                traces=self._traces,
                intercepts=self._allow_escalation,
            )
            unified_exec = UnifiedExec(
                executor,
                orchestrator,
                events,
                cwd=cwd,
                rules=rules,
                limit_tokens=self._max_output_tokens,
                max_poll_s=self._max_poll_s,
                allow_login=self._allow_login_shell,
                when_ended=self._when_ended,
                choose_number=self._choose_number,
            )
            stack.push_async_callback(unified_exec.aclose)
            files = FileTools(executor, orchestrator, reach, cwd=cwd, limit_tokens=self._max_output_tokens)
            self._stack = stack.pop_all()
        return Tools(unified_exec, files, events, has_login=self._allow_login_shell)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()
