"""Under load, with the connection broken again and again at random bytes: every byte once and in order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import paddock
from tests.interaction.cutting_proxy import CuttingProxy
from tests.interaction.traffic import check_everything
from tests.serving import serving

CUTS = 2000
LONGEST_BYTES = 512 * 1024
"""The longest that a connection lives, counted in one direction; half of them break before 724 bytes."""

POLICY = paddock.ReconnectPolicy(
    max_time_s=60, min_delay_s=0, max_delay_s=0, attached_delay_s=0.001, new_session=False
)


@pytest.mark.unmeasured
@pytest.mark.timeout(600)
async def test_two_thousand_cuts_under_load_lose_and_double_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    with serving("--listen", "ws://127.0.0.1:0") as server:
        async with (
            CuttingProxy(server.url, seed=1, limit=CUTS, longest_bytes=LONGEST_BYTES) as proxy,
            paddock.connect(proxy.url, reconnect=POLICY, request_timeout_s=None) as box,
        ):
            checked_bytes = await check_everything(box, proxy)
        assert proxy.cuts == CUTS
        record_property("checked_bytes", checked_bytes)
