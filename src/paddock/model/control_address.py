"""Where a server can be operated."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RemoteControl:
    """A server that accepts operators over the network, and the credentials that it asks for."""

    url: str
    token: str | None = field(default=None, repr=False)
    tls_ca: str | None = None

    def __str__(self) -> str:
        return self.url


ControlAddress = Path | RemoteControl
"""The path of a control socket, or a server somewhere else."""
