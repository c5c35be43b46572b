"""smolagents' own tests of an executor, and a code agent whose code runs in a Paddock sandbox."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.utils import AgentError

from paddock.adapters.smolagents import PaddockExecutor
from tests.ecosystem.conftest import Server
from tests.ecosystem.pages import run_page
from tests.ecosystem.refusal import is_refusal
from tests.ecosystem.upstream import upstream_tests

# The file imports what its other executors need.
ExecutorTests: Any = upstream_tests(
    "smolagents",
    "test_remote_executors",
    docker={},
    __utils={},
    __utils__markers={"require_run_all": lambda tests: tests},
).CommonDockerExecutorIntegration


class Scripted(Model):
    """Writes the code that it was told to write."""

    def __init__(self, *codes: str) -> None:
        super().__init__(model_id="scripted")
        self._codes = iter(codes)
        self.read: list[str] = []

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        self.read.append("".join(part["text"] for part in messages[-1].content))
        return ChatMessage(
            role=MessageRole.ASSISTANT, content=f"Thought: on.\n<code>\n{next(self._codes)}\n</code>"
        )


class TestSuite(ExecutorTests):
    @pytest.fixture
    def custom_executor(self, server: Server) -> Iterator[PaddockExecutor]:
        executor = python_executor(server, ["pillow", "numpy"])
        yield executor
        executor.cleanup()


def python_executor(server: Server, imports: list[str] | None = None, **options: Any) -> PaddockExecutor:
    # The Python of this environment has the packages.
    return PaddockExecutor(imports or [], target=server.target, python=sys.executable, **options)


@pytest.fixture
def executor(server: Server) -> Iterator[PaddockExecutor]:
    executor = python_executor(server)
    yield executor
    executor.cleanup()


def test_an_agent_is_told_that_the_sandbox_refuses_a_write_to_etc(executor: PaddockExecutor) -> None:
    @tool
    def double(number: int) -> int:
        """Double a number.

        Args:
            number: The number.
        """
        return 2 * number

    model = Scripted(
        "import os\nkept = double(21)\nprint(os.getcwd())",
        "open('/etc/paddock-no', 'w')",
        "final_answer(kept)",
    )
    agent = CodeAgent(tools=[double], model=model, executor=executor, verbosity_level=0)

    assert agent.run("begin") == 42

    directory = executor.workspace.open().directory
    assert directory in model.read[1]
    assert is_refusal(model.read[2])
    assert f"Work in {directory}" in model.read[2]
    assert not Path("/etc/paddock-no").exists()


def test_code_that_takes_too_long_is_ended_and_its_output_told(server: Server) -> None:
    executor = python_executor(server, timeout_s=2)
    try:
        executor("word = 'kept'")
        with pytest.raises(AgentError, match=r"before\n(.*\n)*Note: The command did not end within 2 s"):
            executor("import time\nprint('before', flush=True)\ntime.sleep(600)")
        with pytest.raises(AgentError, match="NameError"):
            executor("word")
    finally:
        executor.cleanup()


def test_an_interpreter_that_ends_is_told_and_replaced(executor: PaddockExecutor) -> None:
    with pytest.raises(AgentError, match=r"Python ended with status 3.*\n.*new Python"):
        executor("import os\nos._exit(3)")
    assert executor("1 + 1").output == "2"


def test_every_piece_of_code_goes_to_one_interpreter(
    executor: PaddockExecutor, requests: Counter[str]
) -> None:
    executor.workspace.open()
    requests.clear()
    executor.send_variables({"word": "kept"})
    executor("open('note', 'w').write(word)")
    assert executor("open('note').read()").output == "'kept'"
    assert (requests["process/start"], requests["process/write"]) == (1, 3)
    assert not [method for method in requests if method.startswith("fs/")]


def test_a_package_that_is_missing_is_named(server: Server) -> None:
    with pytest.raises(AgentError, match=r"missing.*no-such-package"):
        python_executor(server, ["numpy", "no-such-package"])


def test_variables_are_sent_without_pickles(executor: PaddockExecutor) -> None:
    executor.send_variables({"word": ("a", b"b")})
    assert executor("word").output == "('a', b'b')"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("smolagents", tmp_path)
