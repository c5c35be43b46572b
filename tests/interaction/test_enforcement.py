"""What a server says about sandboxes when it starts."""

from __future__ import annotations

import errno
import logging
import os

import pytest
from msgspec.structs import replace

from paddock.config import Settings
from paddock.model.host import Bubblewrap, BwrapCapabilities, HostFacts, Problem
from paddock.sandbox.host import probe
from paddock.server.enforcement import report_enforcement
from tests.serving import serving, without_bubblewrap

NAMESPACES = Problem("user namespaces", "AppArmor restricts them", "sysctl …")


def facts(*problems: Problem, can_unshare: bool) -> HostFacts:
    bwrap = Bubblewrap(path="/usr/bin/bwrap", capabilities=BwrapCapabilities())
    return HostFacts("x86_64", (6, 18), bwrap, can_unshare, landlock_abi=7, problems=problems)


@pytest.fixture(name="log")
def log_of_everything(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "paddock.server.enforcement")
    return caplog


async def test_each_reason_not_to_have_a_sandbox_is_a_warning_with_its_remedy(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "host", lambda **_: facts(NAMESPACES, can_unshare=False))
    await report_enforcement(Settings())
    [record] = log.records
    assert record.levelno == logging.WARNING
    assert "no sandboxes can be made" in record.getMessage()
    assert 'reason="AppArmor restricts them" remedy="sysctl …"' in record.getMessage()


async def test_a_host_that_can_not_be_asked_is_not_said_to_have_no_sandboxes(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def host(**_: object) -> HostFacts:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(probe, "host", host)
    await report_enforcement(Settings())
    [record] = log.records
    assert 'is not known yet reason="Too many open files"' in record.getMessage()


async def test_what_only_makes_a_sandbox_weaker_is_no_warning(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        probe, "host", lambda **_: facts(Problem("landlock", "old", "boot"), can_unshare=True)
    )
    await report_enforcement(Settings())
    assert [record.levelno for record in log.records] == [logging.DEBUG, logging.INFO]
    assert "weaker than they could be mechanism=landlock" in log.records[1].getMessage()


@pytest.mark.parametrize(
    ("abi", "level", "said"),
    [(2, logging.WARNING, "no sandboxes can be made"), (7, logging.INFO, "sandboxes are weaker")],
)
async def test_landlock_alone_is_told_by_the_setting_that_asks_for_it(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, abi: int, level: int, said: str
) -> None:
    monkeypatch.setattr(probe, "host", lambda **_: replace(facts(can_unshare=True), landlock_abi=abi))
    await report_enforcement(Settings(use_legacy_landlock=True))
    [record] = log.records
    assert record.levelno == level
    assert said in record.getMessage()
    assert "use_legacy_landlock is set" in record.getMessage()


def test_a_server_without_bubblewrap_warns_on_standard_error_and_goes_on() -> None:
    with serving(env=without_bubblewrap()) as server:
        while "no sandboxes can be made" not in (line := server.next_line()):
            assert line
        assert "mechanism=bubblewrap" in line
        assert "apt install bubblewrap" in line
        assert server.url.startswith("ws://")
