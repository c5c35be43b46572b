"""What a mode of the stock Codex CLI forbids, our server prevents and reports, and an approval lifts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.interop.codex import Codex, Mode, codex_cli, new_ground
from tests.interop.tap import Tap

pytestmark = pytest.mark.asyncio(loop_scope="module")

REVIEWED = (
    *("-c", 'approvals_reviewer="auto_review"'),
    *("-c", "approval_policy={granular={sandbox_approval=true,rules=true,mcp_elicitations=true}}"),
)
"""Options with which the CLI asks the model, not a person, to approve what a sandbox has denied."""

ATTEMPTS = 10
"""A denial counts as one only if it is seen within 150 ms, and a machine may be busy for longer once."""


async def test_a_command_writes_where_the_mode_lets_it(codex: Codex, mode: Mode, tap: Tap) -> None:
    is_confined = mode is not Mode.DANGER_FULL_ACCESS
    ground = codex.ground
    allowed = {
        ground.workspace / "made": mode is not Mode.READ_ONLY,
        ground.workspace / ".git" / "made": not is_confined,
        ground.outside / "made": not is_confined,
    }
    for path, is_allowed in allowed.items():
        reply = await codex.run(f"echo written > {path}")

        assert path.exists() == is_allowed
        assert (reply.exit_code == 0) == is_allowed
        assert ("Read-only file system" in reply.output) != is_allowed
        assert [exited["sandboxDenied"] for exited in tap.exits(str(path))] == [not is_allowed]


async def test_temporary_files_are_for_every_mode_but_one(codex: Codex, mode: Mode) -> None:
    reply = await codex.run("name=$(mktemp -p /tmp) && rm $name")

    assert (reply.exit_code == 0) == (mode is not Mode.READ_ONLY)


async def test_the_network_is_for_full_access_only(codex: Codex, mode: Mode, tap: Tap) -> None:
    port = tap.url.rpartition(":")[2]
    reply = await codex.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}", shell="bash")

    assert (reply.exit_code == 0) == (mode is Mode.DANGER_FULL_ACCESS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reviewed_tap(server_url: str) -> AsyncIterator[Tap]:
    async with Tap(server_url) as tap:
        yield tap


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reviewed(reviewed_tap: Tap) -> AsyncIterator[Codex]:
    """A CLI whose model approves what was denied."""
    with new_ground() as ground:
        async with codex_cli(ground, Mode.WORKSPACE_WRITE, *REVIEWED, url=reviewed_tap.url) as codex:
            yield codex


def confinement(tap: Tap, text: str) -> list[bool]:
    """Of the starts of a command that contains a text, in order, whether in a sandbox."""
    return [start.params["sandbox"] is not None for start in tap.starts(text)]


async def test_a_denied_command_runs_again_without_a_sandbox_once_approved(
    reviewed: Codex, reviewed_tap: Tap
) -> None:
    target = reviewed.ground.outside / "retried"
    for _ in range(ATTEMPTS):
        reply = await reviewed.run(f"echo written > {target}")
        if reply.exit_code == 0:
            break

    assert target.read_text() == "written\n"
    assert confinement(reviewed_tap, str(target))[-2:] == [True, False]
    exits = reviewed_tap.exits(str(target))
    assert [exited["sandboxDenied"] for exited in exits[-2:]] == [True, False]


async def test_a_command_that_asks_to_leave_the_sandbox_does_once_approved(
    reviewed: Codex, reviewed_tap: Tap
) -> None:
    target = reviewed.ground.outside / "asked"
    options = {"sandbox_permissions": "require_escalated", "justification": "it must be there"}
    reply = await reviewed.run(f"echo written > {target}", **options)

    assert reply.exit_code == 0
    assert target.read_text() == "written\n"
    assert confinement(reviewed_tap, str(target)) == [False]


async def test_a_command_that_fails_by_itself_is_not_run_again(reviewed: Codex, reviewed_tap: Tap) -> None:
    reply = await reviewed.run("echo unlucky; exit 3")

    assert (reply.output, reply.exit_code) == ("unlucky\n", 3)
    assert confinement(reviewed_tap, "echo unlucky") == [True]


async def test_an_approved_patch_reaches_beyond_the_workspace(reviewed: Codex) -> None:
    target = reviewed.ground.outside / "patched"
    await reviewed.patch(f"*** Add File: {target}", "+approved")

    assert target.read_text() == "approved\n"
