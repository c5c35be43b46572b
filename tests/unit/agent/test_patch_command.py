"""Patches that models hand to a shell."""

from __future__ import annotations

import pytest

import paddock
from paddock.agent.fake_executor import FakeExecutor
from paddock.agent.patch_command import PatchCommand, patch_command
from paddock.agent.reply import ExecReply

PATCH = "*** Begin Patch\n*** Update File: README\n@@\n-hello\n+bye\n*** End Patch"


@pytest.mark.parametrize(
    ("line", "directory"),
    [
        (f"apply_patch <<'EOF'\n{PATCH}\nEOF", ""),
        (f'apply_patch <<"PATCH"\n{PATCH}\nPATCH\n', ""),
        (f"applypatch <<EOF\n{PATCH}\nEOF\n", ""),
        (f"cd src/app && apply_patch <<'EOF'\n{PATCH}\nEOF", "src/app"),
        (f"cd 'a b' && apply_patch <<'EOF'\n{PATCH}\nEOF", "a b"),
        (f"apply_patch '{PATCH}'", ""),
    ],
)
def test_line_that_applies_a_patch_is_found(line: str, directory: str) -> None:
    assert patch_command(line) == PatchCommand(PATCH, directory)


@pytest.mark.parametrize(
    "line",
    [
        "apply_patch",
        "apply_patch < file",
        f"echo '{PATCH}'",
        f"apply_patch <<'EOF'\n{PATCH}\nEOF\nrm x",
        f"rm x; apply_patch <<'EOF'\n{PATCH}\nEOF",
        f"cd $X && apply_patch <<'EOF'\n{PATCH}\nEOF",
        f"apply_patch <<'EOF'\n{PATCH}\nEND",
        f"apply_patch '{PATCH}' x",
        f"apply_patch '{PATCH}",
        f'apply_patch "{PATCH}$(rm x)"',
    ],
)
def test_any_other_line_is_left_to_the_shell(line: str) -> None:
    assert patch_command(line) is None


async def test_patch_in_a_command_starts_no_process() -> None:
    executor = FakeExecutor()
    async with paddock.Agent(executor) as tools:
        reply = await tools.call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF"})
        failed = await tools.call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF"})
    assert isinstance(reply, ExecReply)
    assert (reply.output, reply.exit_code, reply.chunk_id) == ("M README\n", 0, None)
    assert executor.contents["/work/README"] == b"bye\n"
    assert executor.started == []
    assert failed.is_error
