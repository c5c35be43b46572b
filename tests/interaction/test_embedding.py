"""A server inside a program leaves the program as it was."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire import WireClient, attach, served, session, shell

NOFILE = resource.RLIMIT_NOFILE


@pytest.fixture
def low_limit() -> Iterator[tuple[int, int]]:
    """A soft limit of open files that is below the hard one."""
    before = resource.getrlimit(NOFILE)
    low = (min(before[0], 512), before[1])
    resource.setrlimit(NOFILE, low)
    yield low
    resource.setrlimit(NOFILE, before)


async def limit_of_a_child(client: WireClient) -> int:
    await client.start("p", *shell("ulimit -n"))
    return int((await client.finish("p")).streams["stdout"])


async def test_the_limit_of_open_files_is_raised_for_servers_only(low_limit: tuple[int, int]) -> None:
    soft, hard = low_limit
    async with session() as first:
        assert resource.getrlimit(NOFILE) == (hard, hard)
        async with session() as second:
            assert await limit_of_a_child(second) == soft
        assert resource.getrlimit(NOFILE) == (hard, hard)
        assert await limit_of_a_child(first) == soft

    assert resource.getrlimit(NOFILE) == low_limit


async def test_a_limit_that_the_program_sets_meanwhile_stays(low_limit: tuple[int, int]) -> None:
    chosen = (256, low_limit[1])
    async with served():
        resource.setrlimit(NOFILE, chosen)

    assert resource.getrlimit(NOFILE) == chosen


async def test_each_client_is_told_the_directory_of_that_moment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with served() as server:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            monkeypatch.chdir(tmp_path / name)
            told = await attach(server).initialize()
            assert told["environmentInfo"]["cwd"] == (tmp_path / name).as_uri()
