"""The mechanisms that intercept what a confined command executes."""

from __future__ import annotations

from enum import StrEnum


class Interceptor(StrEnum):
    """A mechanism by which executions are intercepted."""

    NOTIFY = "notify"
    """The kernel asks about every execution, whoever makes it."""

    WRAPPER = "wrapper"
    """A patched Bash asks about what it executes itself."""
