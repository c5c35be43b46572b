"""The turns in which the server reads what HTTP servers send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

Turn = Callable[[], Awaitable[None]]
"""Waits until there is time for another piece."""
