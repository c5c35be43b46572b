"""The interface between callers and the place that carries operations out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from paddock.fs.answer import Metadata
    from paddock.fs.operation import A, Operation


class Operations(Protocol):
    """A place for operations, with the files that are open there.

    Several may be under way at once; they begin in the order in which `perform` was called,
    and end in any order. A cancelled one may still take effect.
    """

    def metadata_at_once(self, path: bytes) -> Metadata | None:
        """Return the metadata of a path if that needs no waiting, else None. Raises RequestError."""

    async def perform(self, operation: Operation[A]) -> A:
        """Carry one operation out. Raises RequestError."""

    async def aclose(self) -> None:
        """Close every open file and discard those not yet published."""
