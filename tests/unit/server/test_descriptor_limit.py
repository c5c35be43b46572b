"""The limit of open files while a server runs."""

from __future__ import annotations

import resource

import pytest

from paddock.server.descriptor_limit import DescriptorLimit


def test_limit_is_raised_for_as_long_as_anybody_needs_it() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = DescriptorLimit()
    with limit.raised() as former:
        assert former == before
        with limit.raised():
            pass
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_server_runs_where_the_limit_can_not_be_raised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def refuse(_: int, __: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1, 2))
    with DescriptorLimit().raised() as former:
        assert former == (1, 2)
    assert "can't be raised" in caplog.text
    monkeypatch.undo()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
