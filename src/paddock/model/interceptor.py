"""The mechanisms that intercept what a confined command executes."""

from __future__ import annotations

from enum import StrEnum


class Interceptor(StrEnum):
    """A mechanism that intercepts executions."""

    NOTIFY = "notify"
    """The kernel asks about every execution, by any process."""

    WRAPPER = "wrapper"
    """A patched Bash asks about what it executes itself."""
