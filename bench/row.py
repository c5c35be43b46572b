"""What a row of the benchmark is.

To add one, derive from `Row` in the module of its subject and name it in `bench.rows`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from bench.servers import Contender


class Unit(StrEnum):
    """What a figure counts. Times, multiples and sizes are better when small, rates when large."""

    SECONDS = "s"
    TIMES = "x"
    BYTES = "B"
    PER_SECOND = "/s"
    BYTES_PER_SECOND = "B/s"

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self in (Unit.PER_SECOND, Unit.BYTES_PER_SECOND)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `goal` is how many times better than the peer Paddock means to be.

    `bound` is a goal that needs no peer: the worst value that is good enough.
    """

    title: str
    unit: Unit
    goal: float | None = None
    bound: float | None = None


class Row(ABC):
    """Something that is measured, in rounds that alternate between the servers.

    `measure` is one round on one server and gives a value per figure, in order, None where the
    server has no such thing;
    `limit` is the same work without a server between, None where there is no such
    thing. Both raise BenchError when a figure can't be had.
    """

    name: ClassVar[str]
    figures: ClassVar[tuple[Figure, ...]]
    bare: ClassVar[str] = ""
    """What the bare limit is, for the notes under the table; empty if there is none."""

    rounds: ClassVar[int] = 5

    @abstractmethod
    def measure(self, contender: Contender) -> Sequence[float | None]:
        """One round on a server."""

    def limit(self) -> Sequence[float | None]:
        """One round without it."""
        return (None,) * len(self.figures)

    def close(self) -> None:
        """Give back what the row has kept between rounds."""
        return
