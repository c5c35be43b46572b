"""The tool runner, the worker and the hooks of Anthropic's SDKs, against endpoints on the loopback."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.lib.tools.agent_toolset import AgentToolContext
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, Transport

from paddock.adapters.anthropic import PaddockPermissions, PaddockTools, SyncPaddockTools, paddock_toolset
from paddock.agent.command_rules import CommandRules
from paddock.model.decision import Action, Origin
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule
from tests.ecosystem.anthropic_endpoint import Call, Endpoint, serving
from tests.ecosystem.conftest import Server
from tests.ecosystem.pages import run_page
from tests.ecosystem.refusal import is_refusal

EDITOR = "str_replace_based_edit_tool"
QUESTION: list[Any] = [{"role": "user", "content": "begin"}]


@pytest_asyncio.fixture
async def tools(server: Server) -> AsyncIterator[PaddockTools]:
    async with PaddockTools(server.target) as tools:
        yield tools


async def scripted(tools: PaddockTools, *calls: Call) -> Endpoint:
    """What a model reads that makes these calls."""
    with serving(Endpoint(*calls)) as endpoint:
        async with AsyncAnthropic(api_key="none", base_url=endpoint.url, max_retries=0) as client:
            runner = client.beta.messages.tool_runner(
                model="scripted", max_tokens=100, messages=QUESTION, tools=list(tools)
            )
            last = await runner.until_done()
    assert last.content[0].text == "Done."
    return endpoint


async def test_the_tool_runner_works_in_one_shell_and_tells_of_a_refused_write_to_etc(
    tools: PaddockTools,
) -> None:
    endpoint = await scripted(
        tools,
        ("bash", {"command": "mkdir sub; cd sub; word=kept"}),
        ("bash", {"command": "basename $PWD; echo $word"}),
        ("bash", {"command": "touch /etc/paddock-no"}),
        (EDITOR, {"command": "create", "path": "/etc/paddock-no", "file_text": "x"}),
        ("bash", {"restart": True}),
        ("bash", {"command": "echo -$word-"}),
    )
    assert [tool["type"] for tool in endpoint.tools] == [
        "bash_20250124",
        "text_editor_20250728",
        "memory_20250818",
    ]
    assert endpoint.told[1] == "sub\nkept\n"
    assert all(is_refusal(told) for told in endpoint.told[2:4])
    assert endpoint.errors == [False, False, True, True, False, False]
    assert endpoint.told[5] == "--\n"
    assert not await (await tools.workspace.path("/etc/paddock-no")).exists()


async def test_a_model_views_and_edits_files_and_reads_why_it_can_not(tools: PaddockTools) -> None:
    def edit(command: str, **arguments: Any) -> Call:
        return EDITOR, {"command": command, "path": "src/file.txt", **arguments}

    endpoint = await scripted(
        tools,
        edit("create", file_text="one\ntwo\ntwo\n"),
        edit("view"),
        edit("view", view_range=[2, -1]),
        edit("str_replace", old_str="one", new_str="zero"),
        edit("str_replace", old_str="two", new_str="three"),
        edit("insert", insert_line=1, insert_text="half"),
        edit("insert", insert_line=9, insert_text="x"),
        (EDITOR, {"command": "view", "path": "."}),
        (EDITOR, {"command": "view", "path": "missing"}),
    )
    told = endpoint.told
    assert told[1] == "     1\tone\n     2\ttwo\n     3\ttwo\n     4\t"
    assert told[2] == "     2\ttwo\n     3\ttwo\n     4\t"
    assert "-one\n+zero\n" in told[3]
    assert "2 times" in told[4]
    assert "it has 4" in told[6]
    assert "./src/file.txt" in told[7]
    assert "missing" in told[8]
    assert endpoint.errors == [False, False, False, False, True, False, True, False, True]
    assert await tools.workspace.read_bytes("src/file.txt") == b"zero\nhalf\ntwo\ntwo\n"


async def test_a_memory_stays_below_its_directory(tools: PaddockTools) -> None:
    def memory(command: str, **arguments: Any) -> Call:
        return "memory", {"command": command, **arguments}

    endpoint = await scripted(
        tools,
        memory("view", path="/memories"),
        memory("create", path="/memories/a/note.txt", file_text="milk\n"),
        memory("create", path="/memories/a/note.txt", file_text="again"),
        memory("str_replace", path="/memories/a/note.txt", old_str="milk", new_str="tea"),
        memory("insert", path="/memories/a/note.txt", insert_line=0, insert_text="list"),
        memory("rename", old_path="/memories/a/note.txt", new_path="/memories/b.txt"),
        memory("view", path="/memories/b.txt"),
        memory("view", path="/memories"),
        memory("delete", path="/memories/a"),
        memory("view", path="/memories/../../etc/passwd"),
        memory("delete", path="/memories"),
    )
    assert endpoint.errors == [False, False, True] + [False] * 6 + [True, True]
    assert endpoint.told[6] == "     1\tlist\n     2\ttea\n     3\t"
    assert endpoint.told[7].splitlines()[1:] == ["4096\t/memories/a/", "9\t/memories/b.txt"]
    assert "not below /memories" in endpoint.told[9]


async def test_files_are_requests_and_not_commands(tools: PaddockTools, requests: Counter[str]) -> None:
    await tools.workspace.open()
    requests.clear()
    await tools.editor.call({"command": "create", "path": "file", "file_text": "one\n"})
    await tools.editor.call({"command": "str_replace", "path": "file", "old_str": "one", "new_str": "two"})
    assert requests == {"fs/writeFile": 1, "fs/edit": 1}
    await tools.editor.call({"command": "view", "path": "file"})
    assert requests["process/start"] == 0
    assert requests["fs/readFile"] == 1


async def test_a_command_that_takes_too_long_ends_with_its_shell(tools: PaddockTools) -> None:
    tools.bash._timeout_s = 0.5
    with pytest.raises(ToolError, match=r"before\n(.*\n)*.*did not end within 0.5 s"):
        await tools.bash.call({"command": "echo before; sleep 600"})
    assert await tools.bash.call({"command": "echo after"}) == "after\n"


def test_a_client_that_blocks_has_the_same_tools(server: Server) -> None:
    calls = [("bash", {"command": "echo hello"}), ("bash", {"command": "touch /etc/paddock-no"})]
    with serving(Endpoint(*calls)) as endpoint, SyncPaddockTools(server.target) as tools:
        client = Anthropic(api_key="none", base_url=endpoint.url, max_retries=0)
        client.beta.messages.tool_runner(
            model="scripted", max_tokens=100, messages=QUESTION, tools=list(tools)
        ).until_done()
        client.close()
    assert endpoint.told[0] == "hello\n"
    assert is_refusal(endpoint.told[1])


# --- managed agents ---------------------------------------------------------


async def worked(tmp_path: Path, server: Server, *calls: Call) -> Endpoint:
    """What a session of a managed agent reads whose work a worker claims from a queue."""
    with serving(Endpoint(*calls)) as endpoint:
        async with AsyncAnthropic(api_key="none", base_url=endpoint.url, max_retries=0) as client:
            worker = client.beta.environments.work.worker(
                environment_id="env_1",
                environment_key="key",
                workdir=tmp_path,
                tools=lambda ctx: paddock_toolset(ctx, server.target),
            )
            running = asyncio.create_task(worker.run())
            try:
                assert await asyncio.to_thread(endpoint.is_stopped.wait, 60)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
    return endpoint


async def test_a_worker_serves_a_session_in_the_sandbox(tmp_path: Path, server: Server) -> None:
    endpoint = await worked(
        tmp_path,
        server,
        ("write", {"file_path": "a/one.txt", "content": "first\nsecond\n"}),
        ("edit", {"file_path": "a/one.txt", "old_string": "first", "new_string": "1st"}),
        ("read", {"file_path": "a/one.txt", "view_range": [1, 1]}),
        ("glob", {"pattern": "**/*.txt"}),
        ("grep", {"pattern": "sec.nd"}),
        ("bash", {"command": "cd a; cat one.txt"}),
        ("bash", {"command": "touch /etc/paddock-no"}),
        ("write", {"file_path": "/etc/paddock-no", "content": "x"}),
    )
    told = dict(zip([name for name, _ in endpoint.calls], endpoint.told, strict=True))
    assert endpoint.told[2] == "1st"
    assert told["glob"] == f"{tmp_path}/a/one.txt"
    assert told["grep"] == f"{tmp_path}/a/one.txt:2:second"
    assert endpoint.told[5] == "1st\nsecond\n"
    assert all(is_refusal(told) for told in endpoint.told[6:])
    assert endpoint.errors == [False] * 6 + [True] * 2


async def test_roots_of_a_context_are_granted_or_kept(tmp_path: Path, server: Server) -> None:
    # Outside of /tmp, which every command may write.
    base = Path("/var/tmp") / f"paddock-roots-{tmp_path.name}-{id(tmp_path)}"
    roots = [base / name for name in ("work", "open", "kept")]
    for root in roots:
        root.mkdir(parents=True)
    work, free, kept = roots
    context = AgentToolContext(
        workdir=work,
        allowed_roots=[free, kept],
        read_only_roots=[kept],
        env={"PATH": "/usr/bin:/bin", "A": "b"},
    )
    tools = {tool.name: tool for tool in paddock_toolset(context, server.target)}
    try:
        await tools["write"].call({"file_path": f"{free}/file", "content": "x"})
        with pytest.raises(ToolError, match="The sandbox denied"):
            await tools["write"].call({"file_path": f"{kept}/file", "content": "x"})
        names = await tools["bash"].call({"command": "env | cut -d= -f1 | sort | tr '\\n' ' '"})
    finally:
        await tools["bash"].close()
        shutil.rmtree(base)
    assert names.split() == ["A", "PATH", "PWD", "SHLVL", "_"]


# --- the Claude Agent SDK ---------------------------------------------------


class ScriptedCode(Transport):
    """Plays Claude Code, which asks the SDK about calls of tools."""

    def __init__(self, *requests: dict[str, Any]) -> None:
        self._requests = requests
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.answers: list[dict[str, Any]] = []
        self.answered = asyncio.Event()

    async def connect(self) -> None: ...

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_response":
            self.answers.append(message["response"])
            if len(self.answers) == len(self._requests):
                self.answered.set()
            return
        if message["type"] == "control_request":
            answer = {"hook_on_failure_supported": True}
            response = {"subtype": "success", "request_id": message["request_id"], "response": answer}
            await self._inbox.put({"type": "control_response", "response": response})
            hooks = message["request"].get("hooks") or {}
            for number, request in enumerate(self._requests):
                if request["subtype"] == "hook_callback":
                    request["callback_id"] = hooks["PreToolUse"][0]["hookCallbackIds"][0]
                await self._inbox.put(
                    {"type": "control_request", "request_id": f"r{number}", "request": request}
                )

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:  # type: ignore[override, unused-ignore]
        while True:
            yield await self._inbox.get()

    async def close(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None: ...


def hook(tool: str, cwd: Path, **arguments: Any) -> dict[str, Any]:
    call = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": arguments, "cwd": str(cwd)}
    return {"subtype": "hook_callback", "tool_use_id": "t", "input": call}


def asking(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"subtype": "can_use_tool", "tool_name": tool, "input": arguments, "tool_use_id": "t"}


async def answers(permissions: PaddockPermissions, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    """What the SDK answers to Claude Code."""
    code = ScriptedCode(*requests)
    options = ClaudeAgentOptions(
        hooks={"PreToolUse": [HookMatcher(hooks=[permissions.pre_tool_use], on_failure="block")]},
        can_use_tool=permissions.can_use_tool,
    )
    async with ClaudeSDKClient(options, transport=code):
        await asyncio.wait_for(code.answered.wait(), 30)
    return [answer["response"] for answer in sorted(code.answers, key=lambda answer: answer["request_id"])]


RULES = CommandRules(
    Policy(
        (
            PrefixRule((("git",), ("push",)), Action.PROMPT, Origin("team.rules", 1)),
            PrefixRule((("reboot",),), Action.FORBIDDEN, Origin("team.rules", 2), "not here"),
        )
    )
)


async def test_claude_code_runs_bash_in_a_sandbox_and_the_refusal_is_in_its_output(tmp_path: Path) -> None:
    permissions = PaddockPermissions(directory=str(tmp_path))
    (answer,) = await answers(
        permissions, hook("Bash", tmp_path, command="echo in > file; touch /etc/paddock-no", timeout=5)
    )
    output = answer["hookSpecificOutput"]
    assert (output["permissionDecision"], output["updatedInput"]["timeout"]) == ("allow", 5)
    command = output["updatedInput"]["command"]
    ran = await asyncio.create_subprocess_shell(command, cwd=tmp_path, stderr=asyncio.subprocess.PIPE)
    said = (await ran.communicate())[1].decode()
    assert ran.returncode == 1
    assert is_refusal(said)
    assert (tmp_path / "file").read_text() == "in\n"


async def test_hooks_refuse_files_that_the_profile_does_not_grant(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/etc")
    permissions = PaddockPermissions(directory=str(tmp_path))
    found = await answers(
        permissions,
        hook("Write", tmp_path, file_path="/etc/paddock-no", content="x"),
        hook("Edit", tmp_path, file_path="link/passwd", old_string="a", new_string="b"),
        hook("Write", tmp_path, file_path=str(tmp_path / ".git" / "config"), content="x"),
        hook("Write", tmp_path, file_path=str(tmp_path / "mine"), content="x"),
        hook("Read", tmp_path, file_path="/etc/passwd"),
        hook("WebFetch", tmp_path, url="http://example.com"),
    )
    decisions = [each.get("hookSpecificOutput", {}).get("permissionDecision") for each in found]
    assert decisions == ["deny", "deny", "deny", "allow", "allow", None]
    assert is_refusal(found[0]["hookSpecificOutput"]["permissionDecisionReason"])
    assert "/etc/passwd" in found[1]["hookSpecificOutput"]["permissionDecisionReason"]


async def test_rules_forbid_a_command_or_have_somebody_asked(tmp_path: Path) -> None:
    permissions = PaddockPermissions(RULES, directory=str(tmp_path))
    forbidden, asked, refused = await answers(
        permissions,
        hook("Bash", tmp_path, command="reboot now"),
        hook("Bash", tmp_path, command="git push"),
        asking("Bash", command="git push"),
    )
    told = forbidden["hookSpecificOutput"]
    assert told["permissionDecision"] == "deny"
    assert "is forbidden by team.rules:2: not here. Do it another way" in told["permissionDecisionReason"]
    assert asked["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert "paddock.adapters.confined_line" in asked["hookSpecificOutput"]["updatedInput"]["command"]
    assert refused["behavior"] == "deny"
    assert "requires approval" in refused["message"]


async def test_a_command_that_is_asked_about_twice_is_confined_once(tmp_path: Path) -> None:
    questions: list[str] = []

    async def ask(tool: str, arguments: Any, why: str) -> bool:
        questions.append(why)
        return True

    permissions = PaddockPermissions(RULES, directory=str(tmp_path), ask=ask)
    (asked,) = await answers(permissions, hook("Bash", tmp_path, command="git push"))
    confined = asked["hookSpecificOutput"]["updatedInput"]["command"]
    (approved,) = await answers(permissions, asking("Bash", command=confined))
    assert approved == {"behavior": "allow", "updatedInput": {"command": confined}}
    assert questions == ["`git push` requires approval by team.rules:1"]


@pytest.mark.parametrize("page", ["anthropic", "claude-agent-sdk"])
def test_the_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path)
