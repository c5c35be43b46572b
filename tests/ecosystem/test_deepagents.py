"""`SandboxIntegrationTests` of LangChain, and an agent of deepagents that works in a Paddock sandbox."""

from __future__ import annotations

import fcntl
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents_code.integrations.sandbox_factory import create_sandbox, verify_sandbox_deps
from deepagents_code.integrations.sandbox_provider import SandboxNotFoundError
from deepagents_code.integrations.sandbox_registry import SandboxRegistry
from langchain.agents import create_agent
from langchain.agents.middleware import ShellToolMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_tests.integration_tests import SandboxIntegrationTests

from paddock.adapters.deepagents import PaddockSandbox
from paddock.adapters.deepagents_code import DIRECTORY_VARIABLE, PaddockProvider
from paddock.adapters.langchain import PaddockExecutionPolicy
from paddock.adapters.server_choice import URL_VARIABLE
from tests.ecosystem.conftest import Server
from tests.ecosystem.pages import run_page
from tests.ecosystem.refusal import is_refusal


class ScriptedModel(GenericFakeChatModel):
    """Says what it was told to say, whatever tools there are."""

    def bind_tools(self, *arguments: Any, **options: Any) -> ScriptedModel:
        return self


class TestSuite(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, server: Server) -> Iterator[PaddockSandbox]:
        with PaddockSandbox(server.target) as sandbox:
            sandbox.execute("rm -rf /tmp/test_sandbox_ops")
            yield sandbox
            sandbox.execute("rm -rf /tmp/test_sandbox_ops")


@pytest.fixture(scope="module")
def sandbox(server: Server) -> Iterator[PaddockSandbox]:
    with PaddockSandbox(server.target) as sandbox:
        yield sandbox


def test_an_agent_is_told_that_the_sandbox_refuses_a_write_to_etc(sandbox: PaddockSandbox) -> None:
    calls = [
        {"name": "execute", "args": {"command": "touch /etc/paddock-no"}, "id": "1"},
        {"name": "write_file", "args": {"file_path": "/etc/paddock-no", "content": "x"}, "id": "2"},
    ]
    model = ScriptedModel(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
    agent = create_deep_agent(model=model, backend=sandbox)

    told = agent.invoke({"messages": [("user", "begin")]})["messages"]

    replies = [str(message.content) for message in told if isinstance(message, ToolMessage)]
    assert len(replies) == 2
    assert all(is_refusal(reply) for reply in replies)
    assert not Path("/etc/paddock-no").exists()


def test_files_are_requests_and_not_commands(sandbox: PaddockSandbox, requests: Counter[str]) -> None:
    path = f"{sandbox.workspace.open().directory}/file.txt"
    requests.clear()
    sandbox.write(path, "one\ntwo\n")
    sandbox.read(path)
    sandbox.edit(path, "two", "three")
    sandbox.ls(path.removesuffix("/file.txt"))
    sandbox.glob("*.txt")
    sandbox.grep("three")
    sandbox.delete(path)
    assert requests["process/start"] == 0
    assert requests["fs/writeFile"] == 2
    assert requests["fs/readFile"] == 2
    assert (requests["fs/walk"], requests["fs/search"], requests["fs/remove"]) == (1, 1, 1)


def test_another_process_attaches_by_the_id(shared_server: Server) -> None:
    with PaddockSandbox(shared_server.target) as sandbox:
        path = f"{sandbox.workspace.open().directory}/note"
        sandbox.write(path, "from here")
        other = PaddockSandbox.attach(sandbox.id, shared_server.target)
        read = other.read(path)
        assert read.file_data is not None
        assert read.file_data["content"] == "from here"
        other.workspace.close()


def test_a_command_that_takes_too_long_is_ended_and_its_output_told(sandbox: PaddockSandbox) -> None:
    done = sandbox.execute("echo before; sleep 600", timeout=1)
    assert done.exit_code == 124
    assert done.output.startswith("before\nNote: The command did not end within 1 s and was killed")


def test_the_shell_tool_of_langchain_tells_a_model_of_the_refusal(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    lines = [
        "mkdir sub; cd sub; printf unended",
        "touch here; touch /etc/paddock-no",
        "cd /etc; touch name",
        "pwd",
    ]
    calls = [{"name": "shell", "args": {"command": line}, "id": line} for line in lines]
    model = ScriptedModel(
        messages=iter([*(AIMessage("", tool_calls=[call]) for call in calls), AIMessage("done")])
    )
    shell = ShellToolMiddleware(work, execution_policy=PaddockExecutionPolicy())
    agent = create_agent(model, middleware=[shell])

    told = agent.invoke({"messages": [("user", "begin")]})["messages"]

    replies = [str(message.content) for message in told if isinstance(message, ToolMessage)]
    assert replies[0].startswith("unended")
    assert is_refusal(replies[1])
    assert f"Work in {work}, or ask the user to grant more" in replies[1]
    assert "Note: The sandbox denied: write name.\n" in replies[2]
    assert replies[3].strip() == "/etc"
    assert (work / "sub" / "here").exists()


def test_a_shell_of_langchain_that_takes_too_long_ends_with_everything_in_it(tmp_path: Path) -> None:
    policy = PaddockExecutionPolicy(termination_timeout=0.1)
    shell = policy.spawn(workspace=tmp_path, env={"PATH": "/usr/bin:/bin"}, command=["/bin/bash"])
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write(
        "exec 9>lock; flock 9; (trap '' TERM HUP; sleep 600) & echo locked; env | wc -l; wait\n"
    )
    assert shell.stdout.readline() == "locked\n"
    # PATH, PWD, SHLVL, _ and what the sandbox sets: nothing of this process.
    assert int(shell.stdout.readline()) < 10
    with (tmp_path / "lock").open() as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.killpg(shell.pid, signal.SIGKILL)
        fcntl.flock(lock, fcntl.LOCK_EX)
    shell.communicate()


def test_deep_agents_code_finds_the_provider_and_works_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(URL_VARIABLE, server.url or "")
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    assert SandboxRegistry().get_metadata("paddock").working_dir == str(tmp_path)
    verify_sandbox_deps("paddock")

    params = {"token_file": server.token_file, "tls_ca": server.tls_ca}
    with create_sandbox("paddock", params=params) as sandbox:
        assert sandbox.execute("pwd; echo > here").output == f"{tmp_path}\n"
        assert is_refusal(sandbox.execute("touch /etc/paddock-no").output)
        name = sandbox.id

    assert (tmp_path / "here").exists()
    with create_sandbox("paddock", sandbox_id=name, params=params) as again:
        assert again.execute("cat here").output == "\n"
        again.close()


def test_deep_agents_code_is_told_of_a_directory_that_is_gone_or_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = PaddockProvider()
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("DEEPAGENTS_CODE_SERVER_CWD", str(project))
    sandbox = provider.get_or_create()
    assert sandbox.execute("pwd").output == f"{project}\n"
    provider.delete(sandbox_id=sandbox.id)
    project.rmdir()
    with pytest.raises(SandboxNotFoundError, match="project"):
        provider.get_or_create(sandbox_id=sandbox.id)
    with pytest.raises(SandboxNotFoundError, match="reference"):
        provider.get_or_create(sandbox_id="no reference")
    with pytest.raises(SandboxNotFoundError, match="no sandbox of this program"):
        provider.delete(sandbox_id=sandbox.id)
    with pytest.raises(ValueError, match="name a directory on ws://host:1: PADDOCK_DIRECTORY"):
        provider.get_or_create(url="ws://host:1")


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("deepagents", tmp_path)
