"""What the requests about one process need to happen once."""

from __future__ import annotations

from paddock.process.description import Description
from paddock.process.managed import ManagedProcess
from paddock.server.session_process import REMEMBERED_WRITES, SessionProcess
from tests.unit.process.test_managed import Nobody


async def test_the_latest_writes_are_remembered_and_the_oldest_forgotten() -> None:
    process = SessionProcess(ManagedProcess(Description("p", ["true"], "/", False), Nobody(), 1000))
    ids = [str(number) for number in range(REMEMBERED_WRITES + 2)]

    for write_id in ids:
        process.remember_write(write_id)

    assert process.write_ids == set(ids[2:])
