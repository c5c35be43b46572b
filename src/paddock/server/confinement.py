"""The confinement that a request wants for a command or an operation, as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from paddock.model.profile import Profile

if TYPE_CHECKING:
    from paddock.server.exec_decider import ExecDecider
    from paddock.server.process_network import ProcessNetwork


class Confinement(Struct, frozen=True, eq=False):
    """A profile, what its special paths refer to, and how it was asked for.

    Two are equal if they make the same sandbox, whichever client asks for it and by whatever name.
    """

    profile: Profile
    project_roots: tuple[str, ...] = ()
    name: str | None = None
    """The name by which the request asked for the profile, if any."""
    is_traced: bool = False
    """Whether the server is to note what a command is refused."""
    client: int = 0
    """The number of the connection that asks: each has one turn at a time where trees are searched."""
    decider: ExecDecider | None = None
    """Decides which programs the command may execute; None if nothing does."""
    network: ProcessNetwork | None = None
    """Decides which hosts the command reaches through its proxy; None if it has no proxy."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Confinement) and self._sandbox == other._sandbox

    def __hash__(self) -> int:
        return hash(self._sandbox)

    @property
    def _sandbox(self) -> tuple[Profile, tuple[str, ...], bool]:
        return self.profile, self.project_roots, self.is_traced
