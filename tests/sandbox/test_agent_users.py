"""An agent's denial, question and retry on a server of root and of an ordinary user, with the real kernel."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from paddock.agent.reply import ExecReply
from tests.sandbox.user_server import user_server


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    """A server of that user."""
    with user_server(user, ground) as url:
        yield url


@pytest.fixture(name="workspace")
def workspace_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="a-", dir=ground))
    for name in ("granted", "other"):
        (directory / name).write_text("old\n")
    for path in (directory, directory / "granted", directory / "other"):
        os.chown(path, user, user)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


async def run(
    url: str, workspace: Path, answer: str, cmd: str
) -> tuple[ExecReply, list[paddock.ApprovalRequest]]:
    """The reply of a command in a read-only sandbox, and what was asked."""
    requests = []

    async def approve(request: paddock.ApprovalRequest) -> str:
        requests.append(request)
        return answer

    async with paddock.Agent(
        url, profile=":read-only", approver=approve, approval_policy="on-failure", cwd=str(workspace)
    ) as tools:
        reply = await tools.call("exec_command", {"cmd": cmd})
    assert isinstance(reply, ExecReply), reply.text
    return reply, requests


async def test_question_names_everything_that_was_denied_and_the_retry_gets_it(
    url: str, workspace: Path
) -> None:
    granted, other = workspace / "granted", workspace / "other"
    reply, [request] = await run(url, workspace, "approved", "echo new > granted; echo new > other")
    assert [denial.target for denial in request.denials] == [str(granted), str(other)]
    assert (granted.read_text(), other.read_text(), reply.exit_code) == ("new\n", "new\n", 0)


async def test_retry_is_confined_to_what_the_question_named(url: str, workspace: Path) -> None:
    # The first attempt ends at its first denial, so the question names one file; the retry meets the other.
    reply, [request] = await run(url, workspace, "approved", "echo new > granted && echo new > other")
    assert [denial.target for denial in request.denials] == [str(workspace / "granted")]
    assert (workspace / "granted").read_text() == "new\n"
    assert (workspace / "other").read_text() == "old\n"
    assert reply.exit_code != 0
    assert any(str(workspace / "other") in note for note in reply.notes)


async def test_refused_retry_leaves_everything_as_it_was(url: str, workspace: Path) -> None:
    reply, requests = await run(url, workspace, "denied", "echo new > granted")
    assert len(requests) == 1
    assert reply.exit_code != 0
    assert (workspace / "granted").read_text() == "old\n"
