"""When a server makes its spare sandboxes."""

from __future__ import annotations

import asyncio

from paddock.process.spawner import Spawner
from paddock.sandbox.enforce.spare import Spare, Unsuitable
from paddock.sandbox.profile.table import built_in
from paddock.server.confinement import Confinement
from paddock.server.holder import Holder
from paddock.server.warm_sandboxes import WarmSandboxes


async def turn_of_the_loop() -> None:
    await asyncio.sleep(0)


async def test_a_start_that_ends_with_the_making_of_spares_still_gets_one_for_the_next() -> None:
    key = Confinement(built_in(":workspace")), "/"
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def make() -> tuple[Spare, Holder]:
        asked.set_result(None)
        raise Unsuitable

    spawner = await Spawner.start(lambda: None)
    pool = WarmSandboxes(spawner, 2, 60.0, dict.fromkeys(("changed", "closed"), 0))
    pool.begin_start()
    pool.ask(key, make)
    pool.end_start()
    making = pool._making
    assert making is not None
    # It will make nothing while this start is under way.
    pool.begin_start()
    while not making.done():
        await turn_of_the_loop()
    # In this very turn the pool does not yet know that it has ended.
    assert pool._making is making
    pool.end_start()
    await asked
    await pool.aclose()
    await spawner.aclose()
