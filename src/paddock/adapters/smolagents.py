"""Paddock as an executor of smolagents.

    from smolagents import CodeAgent
    from paddock.adapters.smolagents import PaddockExecutor

    agent = CodeAgent(tools=[], model=model, executor=PaddockExecutor())

The agent's code runs in its own Python interpreter in a sandbox, which keeps its variables. `agent.cleanup`
ends it.
"""

from __future__ import annotations

import inspect
import json
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

from paddock.adapters import kernel_program
from paddock.adapters.conversation import Conversation, ConversationOver
from paddock.adapters.outcome import OUTPUT_BYTES, TIMEOUT_S, bounded, explained, timeout_note
from paddock.client.workspace import PROFILE
from paddock.sync.workspace import Target, Workspace

KERNEL: Final = inspect.getsource(kernel_program)
NEW_PYTHON: Final = "The next code gets a new Python, without the variables of this one."
SURVEY: Final = """
from importlib import metadata, util
def _is_there(name):
    try:
        return bool(util.find_spec(name)) or bool(metadata.distribution(name))
    except (ImportError, ValueError):
        return False
[name for name in {names!r} if not _is_there(name)]
"""


class PaddockExecutor(RemotePythonExecutor):
    """Runs the code of one agent in a sandbox, with a directory of its own unless `directory` names one.

    `python` is the interpreter: the one of this process on a private server, `python3` on others. Packages
    come from there and can't be installed. The other arguments are those of `paddock.Workspace`.
    """

    def __init__(
        self,
        additional_imports: Sequence[str] = (),
        logger: AgentLogger | None = None,
        allow_pickle: bool = False,
        *,
        target: Target = None,
        directory: str | None = None,
        profile: str | Mapping[str, Any] = PROFILE,
        env: Mapping[str, str] | None = None,
        python: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(list(additional_imports), logger or AgentLogger(LogLevel.ERROR), allow_pickle)
        self.workspace = Workspace(target, directory=directory, profile=profile, env=env)
        self._python = python or (sys.executable if target is None else "python3")
        self._timeout_s = timeout_s
        self._talk: Conversation | None = None
        self.installed_packages = self.install_packages(list(additional_imports))

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Run a piece of code. Raises AgentError with its output, its traceback and what the sandbox
        denied."""
        logs, answer, notes = self.workspace.call(self._run(code))
        if "final" in answer:
            value = self._deserialize_final_answer(str(answer["final"]), self.allow_pickle)
            return CodeOutput(output=value, logs=logs, is_final_answer=True)
        if "error" in answer:
            said = "\n".join([logs, str(answer["error"]).rstrip(), *(f"Note: {note}" for note in notes)])
            raise AgentError(said.lstrip("\n"), self.logger)
        return CodeOutput(output=answer.get("value"), logs=logs, is_final_answer=False)

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Check that packages are installed: a sandbox installs nothing. Raises AgentError."""
        if not additional_imports:
            return []
        missing = self.run_code_raise_errors(SURVEY.format(names=additional_imports)).output
        if missing != "[]":
            why = f"these packages are missing, and can't be installed from inside the sandbox: {missing}"
            raise AgentError(f"{why}; install them for {self._python}", self.logger)
        return additional_imports

    def cleanup(self) -> None:
        """End the interpreter, remove the directory if it was made here, and end the connection."""
        self.workspace.call(self._end())
        self.workspace.__exit__(None, None, None)

    # --- inside -------------------------------------------------------------

    async def _run(self, code: str) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        talk = await self._started()
        mark = secrets.token_hex(16)
        try:
            await talk.tell(json.dumps({"mark": mark, "code": code}) + "\n")
            found = await talk.answer(re.compile(rb"%b (.*)\n" % mark.encode()), self._timeout_s)
        except TimeoutError:
            await self._end()
            return bounded(talk.take())[0], {"error": ""}, (timeout_note(self._timeout_s), NEW_PYTHON)
        except ConversationOver:
            await self._end()
            status = f"Python ended with status {talk.process.exit_code}."
            return bounded(talk.take())[0], {"error": ""}, (status, NEW_PYTHON)
        except BaseException:
            await self._end()
            raise
        logs = bounded(talk.take(found))[0]
        answer = json.loads(found[1])
        if "error" not in answer:
            return logs, answer, ()
        answer["error"] = bounded(answer["error"].encode("utf-8", "replace"), OUTPUT_BYTES)[0]
        notes = await explained(self.workspace.inner, code, answer["error"], 1)
        return logs, answer, notes

    async def _started(self) -> Conversation:
        if self._talk is None or self._talk.is_over:
            process = await self.workspace.inner.start([self._python, "-c", KERNEL], stdin=True)
            self._talk = Conversation(process)
        return self._talk

    async def _end(self) -> None:
        talk, self._talk = self._talk, None
        if talk is not None:
            await talk.end()
