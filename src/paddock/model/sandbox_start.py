"""How the sandbox of a command came about. Pure."""

from __future__ import annotations

from enum import StrEnum


class SandboxStart(StrEnum):
    """How the sandbox of a command came about."""

    WARM = "warm"
    """It was there already, spare, and is what would have been made."""
    COLD = "cold"
    """It was made for the command."""
