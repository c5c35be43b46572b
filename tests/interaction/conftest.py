"""What the tests of `paddock mcp` share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.life_line import LifeLine
from tests.serving import serving


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that lets commands out of their sandboxes, if somebody approves."""
    with serving("--allow-escalation") as server:
        yield server.url


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A directory outside of /tmp, which the profile of a workspace lets every command write."""
    with tempfile.TemporaryDirectory(prefix="paddock-mcp-", dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def life_line(workspace: Path) -> Iterator[LifeLine]:
    """Tells when nothing of a command is left."""
    line = LifeLine(workspace)
    yield line
    line.close()
