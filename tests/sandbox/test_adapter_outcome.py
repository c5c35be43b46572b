"""What models are told of commands and files in every framework, by the module that all adapters share."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator

import pytest

import paddock
from paddock.adapters.outcome import NOT_STARTED, Outcome, file_note, run_line
from paddock.errors.file import FileFailed, FileForbidden, FileMissing
from paddock.model.denial import DenialKind
from tests.wire import served


@pytest.fixture
async def workspace() -> AsyncIterator[paddock.Workspace]:
    async with served() as server, paddock.Workspace(server.url) as workspace:
        yield workspace


async def test_a_model_reads_both_streams_and_what_the_sandbox_denied(workspace: paddock.Workspace) -> None:
    there = await workspace.open()

    fine = await run_line(workspace, "echo out; echo err >&2")
    assert (fine.exit_code, sorted(fine.output.split()), fine.notes) == (0, ["err", "out"], ())
    assert fine.text == fine.output

    refused = await run_line(workspace, "touch /etc/paddock-no")
    assert refused.exit_code != 0
    assert refused.text.endswith(
        "Note: The sandbox denied: write /etc/paddock-no.\n"
        f"Note: Work in {there.directory}, or ask the user to grant more; trying again changes nothing."
    )


async def test_output_is_cut_and_a_time_that_is_over_is_told_with_the_output(
    workspace: paddock.Workspace,
) -> None:
    long = await run_line(workspace, "seq 100000", limit_bytes=1000)
    assert long.is_cut
    assert "1\n2\n" in long.output
    assert long.output.endswith("100000\n")

    slow = await run_line(workspace, "echo before; sleep 600", timeout_s=1.0)
    assert (slow.exit_code, slow.output) == (None, "before\n")
    assert slow.notes == ("The command did not end within 1 s and was killed, with everything it started.",)

    missing = await run_line(workspace, "true", shell=("no-such-shell", "-c"))
    assert missing.exit_code == NOT_STARTED


async def test_a_refused_file_is_told_like_a_refused_command(workspace: paddock.Workspace) -> None:
    there = await workspace.open()
    advice = f"Work in {there.directory}, or ask the user to grant more; trying again changes nothing."
    read_only = FileFailed("can't write", errno.EROFS, "/etc/x")
    assert file_note(read_only, DenialKind.WRITE, "/etc/x", workspace) == (
        f"The sandbox denied: write /etc/x. {advice}"
    )
    forbidden = FileForbidden("can't read '/x': Permission denied", errno.EACCES, "/x")
    assert file_note(forbidden, DenialKind.READ, "/x", workspace) == f"{forbidden}. {advice}"
    missing = FileMissing("there is no '/x'", errno.ENOENT, "/x")
    assert file_note(missing, DenialKind.READ, "/x", workspace) == "there is no '/x'"


def test_notes_stand_on_lines_of_their_own() -> None:
    assert Outcome("", 1, notes=("a",)).text == "Note: a"
    assert Outcome("x", 1, notes=("a", "b")).text == "x\nNote: a\nNote: b"
