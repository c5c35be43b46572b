"""What the tests of the policy proxy share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.network.scene import GOOD, Origin, Scene, proxy_scene


@pytest.fixture
async def origin() -> Origin:
    """What good.test serves, and what it was asked."""
    return Origin()


@pytest.fixture
async def scene(origin: Origin) -> AsyncIterator[Scene]:
    """A proxy that lets nobody but good.test be reached."""
    async with proxy_scene(["good.test"], good_test=GOOD, local_test="127.0.0.1") as scene:
        await scene.add_server(GOOD, 80, origin.serve)
        yield scene
