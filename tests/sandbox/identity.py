"""Who runs a confined command: tests that depend on it run as root and as an ordinary user.

Run by root they cover both; run by anybody else, only that user.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ORDINARY = 61234
"""A user that no host knows, so that nothing is granted by accident."""

PYTHON = "/usr/bin/python3"
"""The interpreter of the host: that of the tests may be where an ordinary user can't reach it."""


@contextmanager
def directory_of(user: int, ground: Path) -> Iterator[Path]:
    """A new directory that belongs to a user, removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="w-", dir=ground))
    os.chown(directory, user, user)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def drop_to(user: int) -> dict[str, Any]:
    """Arguments for subprocess that make the child run as `user`."""
    if user == os.geteuid():
        return {}
    return {"user": user, "group": user, "extra_groups": []}


each_user = pytest.mark.parametrize(
    "user",
    [pytest.param(0, id="root"), pytest.param(ORDINARY, id="ordinary")]
    if os.geteuid() == 0
    else [pytest.param(os.geteuid(), id="ordinary")],
)
"""Runs a test once for each user there is to be."""
