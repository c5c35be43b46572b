"""Rules about hosts."""

from __future__ import annotations

import pytest

from paddock.errors import InvalidRule
from paddock.rules.network import parse_host


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("API.GitHub.com.:443", "api.github.com"),
        (" example.org.. ", "example.org"),
        ("[::1]:80", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("127.0.0.1:8080", "127.0.0.1"),
    ],
)
def test_a_host_is_compared_without_port_case_and_dots(written: str, host: str) -> None:
    assert parse_host(written) == host


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "cannot be empty"),
        (" . ", "cannot be empty"),
        ("[]", "cannot be empty"),
        ("https://x.com", "without scheme or path"),
        ("x.com/path", "without scheme or path"),
        ("x.com?q", "without scheme or path"),
        ("*.x.com", "wildcards are not allowed"),
        ("[::1", "invalid bracketed IPv6 literal"),
        ("[::1]x", "unsupported suffix"),
        ("a b", "cannot contain whitespace"),
    ],
)
def test_what_is_no_host_is_refused(written: str, complaint: str) -> None:
    with pytest.raises(InvalidRule, match=complaint):
        parse_host(written)
