"""Plain HTTP on the websocket's port."""

from __future__ import annotations

import pytest

from paddock.server.http import answer
from paddock.transport.http import HttpRequest


def status_of(path: str, **headers: str) -> int | None:
    response = answer(HttpRequest("GET", path, headers))
    return response.status if response is not None else None


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_checks_are_answered(path: str) -> None:
    assert status_of(path) == 200


def test_the_root_is_upgraded() -> None:
    assert status_of("/") is None


def test_other_paths_are_not_found() -> None:
    assert status_of("/metrics/x") == 404


@pytest.mark.parametrize("path", ["/", "/healthz", "/nowhere"])
@pytest.mark.parametrize("origin", ["null", "https://example.org", ""])
def test_web_pages_are_refused_everywhere(path: str, origin: str) -> None:
    assert status_of(path, Origin=origin) == 403
