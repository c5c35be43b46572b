"""`WorkspaceBackendSuite` of Pydantic AI, and an agent that works in a Paddock workspace."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, WorkspaceRef
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

import paddock
from paddock.adapters.pydantic_ai import Paddock, PaddockBackend
from paddock.client.connect import Connecting
from tests.ecosystem.conftest import Server
from tests.ecosystem.pages import run_page
from tests.ecosystem.refusal import REFUSAL, is_refusal

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def box(anyio_backend: str, server: Server) -> AsyncIterator[paddock.Box]:
    target = server.target
    async with target if isinstance(target, Connecting) else paddock.connect(target) as box:
        yield box


@pytest.fixture
async def backend(box: paddock.Box) -> AsyncIterator[PaddockBackend]:
    backend = PaddockBackend(box)
    yield backend
    await backend.workspace.destroy()


class TestSuite(WorkspaceBackendSuite):
    @pytest.fixture
    async def backend(self, box: paddock.Box) -> AsyncIterator[PaddockBackend]:
        backend = PaddockBackend(box)
        yield backend
        await backend.workspace.destroy()

    @pytest.fixture
    def fresh_backend(self, box: paddock.Box) -> Callable[[], PaddockBackend]:
        return lambda: PaddockBackend(box)

    @pytest.fixture
    def destructive_backend(self, box: paddock.Box) -> Callable[[], PaddockBackend]:
        return lambda: PaddockBackend(box)

    @pytest.fixture
    def attach_backend(self, box: paddock.Box) -> Callable[[WorkspaceRef], PaddockBackend]:
        return lambda ref: PaddockBackend(box, ref=ref)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[PaddockBackend], Awaitable[None]]:
        async def destroy(backend: PaddockBackend) -> None:
            await backend.workspace.destroy()

        return destroy


async def test_a_write_to_etc_is_refused_in_words_that_a_model_can_act_on(backend: PaddockBackend) -> None:
    done = await backend.run("touch /etc/paddock-no", shell=True)
    assert done.exit_code != 0
    assert is_refusal(done.stderr)
    for refused in (backend.write_bytes("/etc/paddock-no", b""), backend.make_dir("/etc/paddock-no")):
        with pytest.raises(PermissionError, match=REFUSAL):
            await refused
    assert not await backend.exists("/etc/paddock-no")


async def test_files_are_requests_and_not_commands(backend: PaddockBackend, requests: Counter[str]) -> None:
    path = f"{await backend.working_dir()}/file"
    requests.clear()
    await backend.write_bytes(path, b"text")
    await backend.read_bytes(path)
    await backend.stat(path)
    await backend.remove(path)
    assert requests == {"fs/writeFile": 1, "fs/readFile": 1, "fs/getMetadata": 1, "fs/remove": 1}


async def test_an_agent_is_told_of_the_refusal_and_a_later_run_goes_on_in_the_same_workspace(
    server: Server,
) -> None:
    told: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if last.part_kind == "user-prompt":
            return ModelResponse(
                [ToolCallPart("shell", {"line": "echo kept >> note; cat note; touch /etc/paddock-no"})]
            )
        told.append(str(last.content))
        return ModelResponse([TextPart("done")])

    agent = Agent(FunctionModel(model), capabilities=[Paddock(server.target)])

    @agent.tool
    async def shell(ctx: RunContext[None], line: str) -> str:
        done = await ctx.workspace.run(line, shell=True)
        return done.stdout + done.stderr

    first = await agent.run("begin")
    await agent.run("go on", message_history=first.all_messages())
    assert [text.count("kept\n") for text in told] == [1, 2]
    assert all(is_refusal(text) for text in told)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("pydantic-ai", tmp_path)
