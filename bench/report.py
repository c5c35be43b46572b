"""What was measured, as a table for people and as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.row import Figure, Unit

NONE = "-"
HEADER = ("", "paddock", "peer", "ratio", "goal", "bare limit", "distance")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure: what each round gave. An empty sequence was not, or could not be, measured."""

    row: str
    figure: Figure
    paddock: Sequence[float]
    peer: Sequence[float]
    limit: Sequence[float]

    @property
    def ratio(self) -> float | None:
        """How many times better Paddock is than the peer."""
        return self._times_better(self.paddock, self.peer)

    @property
    def distance(self) -> float | None:
        """How many times better the bare limit is than Paddock."""
        return self._times_better(self.limit, self.paddock)

    def as_json(self) -> dict[str, Any]:
        """Plain values, with every round."""
        return {
            "row": self.row,
            "title": self.figure.title,
            "unit": str(self.figure.unit),
            "goal": self.figure.goal,
            "bound": self.figure.bound,
            "ratio": self.ratio,
            "distance": self.distance,
            "paddock": list(self.paddock),
            "peer": list(self.peer),
            "limit": list(self.limit),
        }

    def _times_better(self, one: Sequence[float], other: Sequence[float]) -> float | None:
        if not one or not other:
            return None
        better, worse = median(one), median(other)
        if not self.figure.unit.is_rate:
            better, worse = worse, better
        return better / worse if worse > 0 else None


def table(lines: Sequence[Line]) -> str:
    """The lines under a header, in aligned columns."""
    rows = [HEADER, *(_cells(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _cells(line: Line) -> tuple[str, ...]:
    figure = line.figure
    return (
        figure.title,
        _amount(line.paddock, figure.unit),
        _amount(line.peer, figure.unit),
        _times(line.ratio),
        _times(figure.goal) if figure.bound is None else _amount([figure.bound], figure.unit),
        _amount(line.limit, figure.unit),
        _times(line.distance),
    )


def _times(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}x"


def _amount(rounds: Sequence[float], unit: Unit) -> str:
    if not rounds:
        return NONE
    value = median(rounds)
    match unit:
        case Unit.SECONDS:
            return f"{value * 1e3:.2f} ms"
        case Unit.TIMES:
            return _times(value)
        case Unit.PER_SECOND:
            return f"{value:,.0f} /s"
        case Unit.BYTES_PER_SECOND:
            return f"{value / 1e6:,.0f} MB/s"
        case Unit.BYTES:
            return f"{value / 1e6:.1f} MB" if value >= 1e6 else f"{value / 1e3:.1f} kB"
