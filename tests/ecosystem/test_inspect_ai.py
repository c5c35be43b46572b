"""`self_check` of Inspect, and a task whose model works in a Paddock sandbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from inspect_ai import Task, eval_async
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import bash
from inspect_ai.util import SandboxEnvironmentSpec
from inspect_ai.util._sandbox.events import SandboxTimeoutError
from inspect_ai.util._sandbox.exec_remote import ExecCompleted, ExecRemoteStreamingOptions, ExecStdout
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from paddock.adapters.inspect_ai import PaddockConfig, PaddockProcess, PaddockSandboxEnvironment
from paddock.adapters.server_choice import URL_VARIABLE
from tests.ecosystem.conftest import Server
from tests.ecosystem.pages import run_page
from tests.ecosystem.refusal import REFUSAL, is_refusal


@pytest_asyncio.fixture
async def sandbox_env(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PaddockSandboxEnvironment]:
    monkeypatch.setenv(URL_VARIABLE, server.url or "")
    config = PaddockConfig(token_file=server.token_file, tls_ca=server.tls_ca)
    made = await PaddockSandboxEnvironment.sample_init("task", config, {})
    yield made["default"]
    await PaddockSandboxEnvironment.sample_cleanup("task", config, made, False)


async def test_a_write_to_etc_is_refused_in_words_that_a_model_can_act_on(
    sandbox_env: PaddockSandboxEnvironment,
) -> None:
    done = await sandbox_env.exec(["touch", "/etc/paddock-no"])
    assert not done.success
    assert is_refusal(done.stderr)
    with pytest.raises(PermissionError, match=REFUSAL):
        await sandbox_env.write_file("/etc/paddock-no", "")


async def test_files_are_requests_and_not_commands(
    sandbox_env: PaddockSandboxEnvironment, requests: Counter[str]
) -> None:
    await sandbox_env.workspace.open()
    requests.clear()
    await sandbox_env.write_file("file", "text")
    assert await sandbox_env.read_file("file") == "text"
    assert requests == {"fs/writeFile": 1, "fs/getMetadata": 1, "fs/readFile": 1}


async def test_a_remote_command_streams_and_reads_what_it_is_sent(
    sandbox_env: PaddockSandboxEnvironment,
) -> None:
    options = ExecRemoteStreamingOptions(stdin_open=True)
    process = await sandbox_env.exec_remote(["sh", "-c", "read line; echo got $line; exit 3"], options)
    assert isinstance(process, PaddockProcess)
    await process.write_stdin("word\n")
    await process.close_stdin()
    assert [event async for event in process] == [ExecStdout("got word\n"), ExecCompleted(3)]

    endless = await sandbox_env.exec_remote(["sleep", "600"])
    assert isinstance(endless, PaddockProcess)
    await endless.kill()


async def test_a_command_that_takes_too_long_gives_its_output_so_far(
    sandbox_env: PaddockSandboxEnvironment,
) -> None:
    with pytest.raises(SandboxTimeoutError) as ended:
        await sandbox_env.exec(["sh", "-c", "echo before; echo aside >&2; sleep 600"], timeout=1)
    assert ended.value.truncated_output == "before\naside\n"


async def _count(text: str) -> int:
    return len(text)


async def test_a_model_is_told_of_the_refusal_and_of_the_output_of_what_took_too_long(
    tmp_path: Path, server: Server
) -> None:
    lines = ["touch /etc/paddock-no", "echo before; sleep 600"]
    model = get_model(
        "mockllm/model",
        custom_outputs=[
            *(ModelOutput.for_tool_call("mockllm/model", "bash", {"command": line}) for line in lines),
            ModelOutput.from_content("mockllm/model", "Done."),
        ],
    )
    # It would fetch a tokenizer.
    model.api.count_text_tokens = _count
    config = PaddockConfig(url=server.url, token_file=server.token_file, tls_ca=server.tls_ca)
    sandbox = SandboxEnvironmentSpec("paddock", config)
    task = Task([Sample("begin")], solver=[use_tools(bash(timeout=2)), generate()], sandbox=sandbox)
    (log,) = await eval_async(task, model=model, log_dir=str(tmp_path))
    assert log.status == "success"
    assert log.samples is not None
    refused, ended = [message for message in log.samples[0].messages if message.role == "tool"]
    assert is_refusal(refused.text)
    assert ended.text.startswith("before\n")
    assert ended.error is not None
    assert ended.error.type == "timeout"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("inspect-ai", tmp_path)
