"""An agent's rules about single programs, and its prepared starts, with the real kernel."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import paddock
from paddock.model.profile import ManagedProfile, ProxiedNetwork
from paddock.sandbox.profile.codec import encode_profile
from paddock.sandbox.profile.table import built_in
from tests.sandbox.user_server import user_server
from tests.unit.audit.logs import segments

RULES = """\
prefix_rule(pattern=["touch"], decision="prompt", justification="it makes files")
prefix_rule(pattern=["mkdir"], decision="allow")
"""


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    """A server of that user, whose settings let programs out of sandboxes."""
    with user_server(user, ground, allow_escalation=True) as url:
        yield url


@pytest.fixture(name="workspace")
def workspace_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="p-", dir=ground))
    (directory / "work").mkdir()
    (directory / "team.rules").write_text(RULES)
    for path in (directory, directory / "work"):
        os.chown(path, user, user)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


class Recorder:
    """Answers every question alike, and keeps them."""

    def __init__(self, answer: str) -> None:
        self.requests: list[paddock.ApprovalRequest] = []
        self._answer = answer

    async def __call__(self, request: paddock.ApprovalRequest) -> str:
        self.requests.append(request)
        return self._answer


@pytest.mark.parametrize("answer", ["approved", "denied"])
async def test_question_is_about_the_one_program_that_a_rule_names(
    url: str, workspace: Path, answer: str
) -> None:
    approver = Recorder(answer)
    made, other = workspace / "made", workspace / "other"
    async with paddock.Agent(
        url,
        rules=[workspace / "team.rules"],
        allow_escalation=True,
        approver=approver,
        cwd=str(workspace / "work"),
    ) as tools:
        script = f"touch {made}; echo no > {other}; mkdir {workspace}/directory; echo here > inside"
        reply = await tools.call("exec_command", {"cmd": script})
    [request] = approver.requests
    assert os.path.basename(request.command[0]) == "touch"
    assert request.command[1:] == (str(made),)
    assert request.is_program
    assert request.rule == f"{workspace}/team.rules:1"
    # What was let out could leave the workspace; the shell around it could not.
    assert made.exists() == (answer == "approved")
    assert (workspace / "directory").is_dir()
    assert not other.exists()
    assert (workspace / "work" / "inside").read_text() == "here\n"
    assert ("Execution denied" in reply.output) == (answer == "denied")


async def test_open_box_is_refused_because_its_server_could_not_ask(url: str, workspace: Path) -> None:
    async with paddock.connect(url) as box:
        with pytest.raises(ValueError, match=r"give connect\(\.\.\.\) itself"):
            async with paddock.Agent(box, rules=[workspace / "team.rules"], allow_escalation=True):
                pass
    async with paddock.Agent(
        paddock.connect(url), rules=[workspace / "team.rules"], allow_escalation=True
    ) as tools:
        assert (await tools.call("exec_command", {"cmd": "true"})).exit_code == 0


def told(log: Path) -> list[dict[str, Any]]:
    lines = b"".join(segment.read_bytes() for segment in segments(log)).splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "start"]


async def test_approved_retry_without_the_sandbox_does_not_use_its_proxy(
    user: int, ground: Path, workspace: Path
) -> None:
    known = built_in(":read-only")
    assert isinstance(known, ManagedProfile)
    proxied = replace(known, network=ProxiedNetwork(allow=("good.test",)))
    profile = json.loads(encode_profile(proxied))
    target = workspace / "work" / "out"
    script = f"mkdir -p {workspace}/a/b && env > {target}"
    with user_server(user, ground, allow_prepared_exec=True) as url:
        async with paddock.Agent(
            url,
            profile=profile,
            approval_policy="on-failure",
            approver=Recorder("approved"),
            cwd=str(workspace / "work"),
        ) as tools:
            inside = await tools.call("exec_command", {"cmd": "env"})
            reply = await tools.call("exec_command", {"cmd": script})
    assert "HTTP_PROXY=" in inside.text
    assert reply.exit_code == 0, reply.text
    assert "PATH=" in target.read_text()
    assert "127.0.0.1" not in target.read_text()


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_approved_retry_without_the_sandbox_is_a_prepared_start_where_the_server_takes_them(
    user: int, ground: Path, workspace: Path, is_allowed: bool
) -> None:
    log = workspace / "audit"
    link = workspace / "link"
    link.symlink_to(workspace / "work")
    approver = Recorder("approved")
    target = workspace / "work" / "out"
    # The command names nothing for certain, so that nothing less than no sandbox would do.
    script = f"mkdir -p {workspace}/a/b && echo $LANG > {target}"
    with user_server(user, ground, allow_prepared_exec=is_allowed, audit_log=str(log)) as url:
        async with paddock.Agent(
            url, profile=":read-only", approval_policy="on-failure", approver=approver, cwd=str(link)
        ) as tools:
            reply = await tools.call("exec_command", {"cmd": script})
    assert reply.exit_code == 0, reply.text
    assert target.read_text() == "C.UTF-8\n"
    [request] = approver.requests
    assert request.is_unsandboxed
    last = told(log)[-1]
    assert tuple(last["argv"]) == request.command
    assert request.cwd == str(workspace / "work")
