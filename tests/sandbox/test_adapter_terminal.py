"""A command of a model that outlives a call: what is kept of its output, and what its sandbox denied it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import paddock
from paddock.adapters.terminal import LIMIT_BYTES, Terminal
from tests.wire import served


@pytest.fixture
async def workspace() -> AsyncIterator[paddock.Workspace]:
    async with served() as server, paddock.Workspace(server.url) as workspace:
        yield workspace


async def taken(terminal: Terminal) -> bytes:
    await terminal.settle()
    output = b"".join(terminal.chunks)
    terminal.chunks.clear()
    return output


async def test_output_that_nobody_takes_is_bounded_and_its_end_stays(workspace: paddock.Workspace) -> None:
    line = f"exec 2>&1; echo begin; yes | head -c {3 * LIMIT_BYTES}; echo end; touch /etc/paddock-no"
    terminal = Terminal(await workspace.start(["bash", "-c", line]), workspace)
    await terminal.end.wait()

    assert not terminal.chunks
    output = await taken(terminal)

    assert len(output) < LIMIT_BYTES + 100
    assert output.startswith(b"begin\ny\n")
    head, note, tail = output.partition(" bytes are left out …]\n".encode())
    assert note
    assert int(head.rpartition(b" ")[2]) > 2 * LIMIT_BYTES
    assert b"\nend\n" in tail
    assert b"Note: The sandbox denied: write /etc/paddock-no." in tail
    assert await taken(terminal) == b""


async def test_a_call_takes_what_came_since_the_last_one(workspace: paddock.Workspace) -> None:
    process = await workspace.start(["sed", "-u", "s/^/got /;/last/q"], stdin=True)
    terminal = Terminal(process, workspace)
    output = b""
    await process.write(b"first\n")
    while b"got first\n" not in output:
        await process.write(b"\n")
        output += await taken(terminal)
    await process.write(b"last\n")
    await terminal.end.wait()
    rest = await taken(terminal)
    assert b"first" not in rest
    assert rest.endswith(b"got last\n")
