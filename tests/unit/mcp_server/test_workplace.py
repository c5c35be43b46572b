"""The connection that all calls share, when its server goes and comes back."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

import paddock
from paddock.mcp_server import workplace
from tests.mcp_client import workplace as opened_workplace
from tests.serving import serving


async def test_server_that_is_back_after_it_was_given_up_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Gives up at once, and not after half a minute.
    monkeypatch.setattr(workplace, "connect", partial(paddock.connect, reconnect=False))
    flags = "--listen", f"unix://{tmp_path}/s"
    async with opened_workplace(flags[1]) as shared:
        with serving(*flags) as server:
            first = await shared.box()
            assert await shared.box() is first
            await asyncio.to_thread(server.stop)
        with pytest.raises(paddock.PaddockError):
            await first.run(["true"])
        with pytest.raises(paddock.ConnectError):
            await shared.box()
        with serving(*flags):
            assert (await (await shared.box()).run(["true"])).returncode == 0
