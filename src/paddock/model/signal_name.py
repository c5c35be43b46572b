"""Names of signals as callers write them."""

from __future__ import annotations

from signal import Signals

INTERRUPT = "interrupt"
"""The only name in the wire protocol before POSIX names; it means SIGINT."""


def parse_signal(name: str) -> Signals:
    """Return the signal called `name`: `SIGTERM`, `TERM` or `interrupt`.

    Raises ValueError for any other name.
    """
    if name == INTERRUPT:
        return Signals.SIGINT
    full = name if name.startswith("SIG") else f"SIG{name}"
    try:
        return Signals[full]
    except KeyError:
        raise ValueError(
            f"unknown signal {name!r}; use a POSIX name such as SIGTERM or TERM, or {INTERRUPT!r}"
        ) from None
