"""Hosts in their one form, and patterns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model import host_pattern
from paddock.model.host_pattern import HostPattern, normal_host


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ".",
            "a..b",
            "-a.test",
            "a-.test",
            "a b",
            "ä.test",
            "a/b",
            "a@b",
            "%61.test",
            "a" * 64 + ".test",
        ),
        *("1.2.3.4.5", "256.1.1.1", "1.2.3.256", "0x100000000", "4294967296", "08.0.0.1", "1.a.2", "1..2"),
        *("[::1", "::1]", "[fe80::1%eth0]", "[]", "[127.0.0.1]", ":::", "x." * 127 + "xx"),
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the host"):
        normal_host(text)


@pytest.mark.parametrize(
    "text",
    ["", "*.", "**", "*.*.test", "a.*.test", "*.1.2.3.4", "a.test:", "a.test:0", "a.test:x", "a:70000"],
)
def test_pattern_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is invalid"):
        HostPattern.parse(text)


@pytest.mark.parametrize(
    "text", ["a.test", "*.a.test", "**.a.test", "*", "*:*", "a.test:22", "a.test:*", "[::1]:80", "192.0.2.1"]
)
def test_pattern_is_written_as_it_is_read(text: str) -> None:
    assert str(HostPattern.parse(text)) == text


@given(st.text(max_size=40))
def test_whatever_is_a_host_stays_what_it_is(text: str) -> None:
    try:
        host = normal_host(text)
    except ValueError:
        return
    assert normal_host(host) == host
    assert host == host.lower()


def test_a_pattern_is_read_once_however_often_a_start_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = host_pattern.normal_host

    def counted(text: str) -> str:
        read.append(text)
        return original(text)

    monkeypatch.setattr(host_pattern, "normal_host", counted)
    name = ".".join(["only-here"] * 20)
    for _ in range(3):
        assert HostPattern.parse(name).host == name

    assert read == [name]
