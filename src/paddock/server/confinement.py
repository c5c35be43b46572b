"""The confinement that a request wants for a command or an operation, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from paddock.model.profile import Profile

if TYPE_CHECKING:
    from paddock.server.exec_decider import ExecDecider
    from paddock.server.process_network import ProcessNetwork


@dataclass(frozen=True, slots=True)
class Confinement:
    """A profile, what its special paths refer to, and how it was asked for."""

    profile: Profile
    project_roots: tuple[str, ...] = ()
    name: str | None = field(default=None, compare=False)
    """The name that the request asked for the profile by, if it did."""
    is_traced: bool = False
    """Whether the server is to note what a command is refused."""
    client: int = field(default=0, compare=False)
    """The number of the connection that asks: each has one turn at a time where trees are searched."""
    decider: ExecDecider | None = field(default=None, compare=False)
    """Decides on what the command executes; None if nobody does."""
    network: ProcessNetwork | None = field(default=None, compare=False)
    """Decides on whom the command reaches through its proxy; None if it has none."""
