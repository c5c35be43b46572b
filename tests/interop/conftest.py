"""The peer as a real program beside the tests: its server for our client, its client for our server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.interop.codex import PROGRAM, Codex, Ground, Mode, codex_cli, new_ground
from tests.interop.tap import Tap
from tests.serving import serving


@pytest.fixture(scope="module")
def peer_url() -> Iterator[str]:
    """The URL of a running exec-server of the peer; skips by name where it is not installed."""
    if not PROGRAM.exists():
        pytest.skip("the peer is not installed (make peer)")
    with new_ground() as ground:
        environment = {"PATH": os.environ["PATH"], "HOME": str(ground.home), "CODEX_HOME": str(ground.home)}
        argv = [str(PROGRAM), "exec-server", "--listen", "ws://127.0.0.1:0", "--concurrent-requests", "32"]
        with subprocess.Popen(
            argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip()
            finally:
                process.terminate()


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    """The URL of a server of ours, with a home of its own."""
    with new_ground() as ground:
        home = str(ground.home)
        # /tmp is written to under the usual profiles; another temporary directory would be as well.
        with serving(env={"HOME": home, "CODEX_HOME": home, "TMPDIR": "/tmp"}) as server:
            yield server.url


@pytest.fixture(scope="module", params=Mode)
def mode(request: pytest.FixtureRequest) -> Mode:
    """Each mode of the CLI in turn."""
    return Mode(request.param)


@pytest.fixture(scope="module")
def ground(mode: Mode) -> Iterator[Ground]:
    """A project for a CLI to work on."""
    with new_ground() as ground:
        ground.furnish()
        yield ground


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tap(server_url: str, mode: Mode) -> AsyncIterator[Tap]:
    """What the CLI and the server say to each other."""
    async with Tap(server_url) as tap:
        yield tap


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def codex(ground: Ground, tap: Tap, mode: Mode) -> AsyncIterator[Codex]:
    """A stock CLI in one mode, which the tests of a module have work for them one after the other."""
    async with codex_cli(ground, mode, url=tap.url) as codex:
        yield codex
