"""Who runs a confined command: tests that depend on it run as root and as an ordinary user.

Run by root they cover both; run by anybody else, only that user.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

ORDINARY = 61234
"""A user that no host knows, so that nothing is granted by accident."""

PYTHON = "/usr/bin/python3"
"""The interpreter of the host: that of the tests may be where an ordinary user can't reach it."""


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
