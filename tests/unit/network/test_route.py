"""The variables by which a command finds its proxy."""

from __future__ import annotations

from paddock.network.route import HTTP_URL, SOCKS_URL, VARIABLES, proxied_environment


def test_every_spelling_names_the_proxy_whatever_it_was_before() -> None:
    before = {"http_proxy": "http://corporate:80", "Https_Proxy": "x", "NO_PROXY": "*", "HOME": "/h"}
    after = proxied_environment(before)
    assert after["HOME"] == "/h"
    assert "Https_Proxy" not in after
    for name in VARIABLES:
        assert after[name] == after[name.lower()]
        assert after[name] in (HTTP_URL, SOCKS_URL)
    assert after["no_proxy"] == after["NO_PROXY"] == "localhost,127.0.0.1,::1"
