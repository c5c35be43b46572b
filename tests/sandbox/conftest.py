"""What tests with the real kernel share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(name="place")
def directory_for_anybody() -> Iterator[Path]:
    """A directory that every user can reach and write to, unlike those below pytest's own."""
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp") as directory:
        path = Path(directory).resolve()
        path.chmod(0o777)
        yield path
