"""The servers of this directory's tests, and the options that choose another one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.server import Servers


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; they are known when this directory is named on the command line."""
    group = parser.getgroup("conformance")
    group.addoption(
        "--server-url", metavar="URL", help="replay against the server at this ws:// address, not a new one"
    )
    group.addoption(
        "--as-recorded", action="store_true", help="expect the recorded peer's behaviour, without deviations"
    )


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Iterator[Servers]:
    """Start servers on demand; they live as long as the tests."""
    with Servers(pytestconfig.getoption("--server-url", default=None)) as servers:
        yield servers


@pytest.fixture(scope="session")
def is_peer(pytestconfig: pytest.Config) -> bool:
    """Whether the server is one that should do everything as recorded."""
    return bool(pytestconfig.getoption("--as-recorded", default=False))
