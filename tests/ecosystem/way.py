"""The ways to a server in which every suite is run."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Final

VARIABLE: Final = "PADDOCK_ECOSYSTEM_WAY"
TOKEN: Final = "a-token-of-the-tests-of-adapters"


class Way(StrEnum):
    """Which server the adapters of a run use."""

    PRIVATE = "private"
    """One that the adapter starts, and that ends with it."""
    REMOTE = "remote"
    """One by its URL."""
    TLS = "tls"
    """One by its URL, encrypted, and with a token."""


WAY: Final = Way(os.environ.get(VARIABLE, Way.REMOTE))
