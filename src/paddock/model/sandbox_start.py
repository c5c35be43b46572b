"""How a command got its sandbox. Pure."""

from __future__ import annotations

from enum import StrEnum


class SandboxStart(StrEnum):
    """How a command got its sandbox."""

    WARM = "warm"
    """A spare sandbox existed already, identical to the one that the server would have made."""
    COLD = "cold"
    """The server made it for the command."""
