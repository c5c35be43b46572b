"""A server that requires a sandbox refuses whatever it can't confine."""

from __future__ import annotations

import pytest

from tests.http_origin import origin, say_ok
from tests.wire import WireError, session


async def test_a_server_that_requires_a_sandbox_fetches_nothing_unless_it_is_allowed() -> None:
    async with origin(say_ok) as remote:
        params = {"method": "GET", "url": remote.url, "requestId": "r"}
        async with session(require_sandbox=True) as client:
            with pytest.raises(WireError, match=r"require_sandbox.*allow_unsandboxed_http") as refusal:
                await client.call("http/request", params)
            assert refusal.value.code == -32600
        assert remote.requests == []
        async with session(require_sandbox=True, allow_unsandboxed_http=True) as client:
            assert (await client.call("http/request", params))["status"] == 200


@pytest.mark.parametrize("allow_prepared", [True, False])
async def test_a_server_that_requires_a_sandbox_starts_nothing_without_one(allow_prepared: bool) -> None:
    unconfined = {"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"}
    prepared = {"argv": ["/bin/true"], "cwd": "/", "env": {}}
    async with session(require_sandbox=True, allow_prepared_exec=allow_prepared) as client:
        for params in ({}, {"sandbox": unconfined}):
            with pytest.raises(WireError, match="require_sandbox"):
                await client.start("p", "/bin/true", **params)
        with pytest.raises(WireError, match="require_sandbox"):
            await client.call("process/start", {"processId": "p", "tty": False, "prepared": prepared})
        assert (await client.call("process/list"))["processes"] == []
