"""Metrics as text, in the exposition format that Prometheus reads (version 0.0.4). Pure.

This module knows families, samples and how they are written, but not what is measured.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from msgspec import Struct, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(StrEnum):
    """How a reader may interpret the values of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Histogram:
    """Counts durations by upper bound.

    Where even a look at the clock is too much, add to `untimed` instead: the next duration
    given to `observe_for_untimed` counts for those too, and `settle` counts the last of them.
    """

    __slots__ = ("_latest_s", "bounds_s", "counts", "sum_s", "untimed")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        """The number of durations at most the bound of the same index and above the one before; the last
        has no bound."""
        self.sum_s = 0.0
        self.untimed = 0
        self._latest_s = 0.0

    def observe(self, duration_s: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds_s, duration_s)] += 1
        self.sum_s += duration_s

    def observe_for_untimed(self, duration_s: float) -> None:
        """Count one duration, and with it those that were not timed."""
        self._latest_s = duration_s
        self.untimed += 1
        self.settle()

    def settle(self) -> None:
        """Count those that were not timed as if each had taken as long as the latest that was."""
        self.counts[bisect_left(self.bounds_s, self._latest_s)] += self.untimed
        self.sum_s += self._latest_s * self.untimed
        self.untimed = 0


Measured = float | Histogram


class Family(Struct, frozen=True):
    """One metric: a single value, or one for each value of a label."""

    name: str
    kind: Kind
    meaning: str
    values: Mapping[str, Measured]
    """By the value of the label; a family without a label has one, under an empty string."""
    label: str = ""


def single(name: str, kind: Kind, meaning: str, value: Measured) -> Family:
    """Return a family without a label."""
    return Family(name, kind, meaning, {"": value})


def render(families: Iterable[Family]) -> bytes:
    """Render the whole answer to a scrape."""
    page = _Page()
    for family in families:
        page.add(family)
    return "".join(page.lines).encode()


class _Page(Struct):
    lines: list[str] = field(default_factory=list)

    def add(self, family: Family) -> None:
        self.lines.append(f"# HELP {family.name} {_escape_help(family.meaning)}\n")
        self.lines.append(f"# TYPE {family.name} {family.kind}\n")
        for label_value, measured in family.values.items():
            labels = [(family.label, label_value)] if family.label else []
            if isinstance(measured, Histogram):
                self.lines.extend(_histogram(family.name, labels, measured))
            else:
                self.lines.append(_sample(family.name, labels, measured))


Labels = list[tuple[str, str]]


def _histogram(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    histogram.settle()
    total = 0
    for bound_s, count in zip((*histogram.bounds_s, math.inf), histogram.counts, strict=True):
        total += count
        yield _sample(f"{name}_bucket", [*labels, ("le", _number(bound_s))], total)
    yield _sample(f"{name}_sum", labels, histogram.sum_s)
    yield _sample(f"{name}_count", labels, total)


def _sample(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels)
    return f"{name}{{{shown}}} {_number(value)}\n" if shown else f"{name} {_number(value)}\n"


def _number(value: float) -> str:
    if value == math.inf:
        return "+Inf"
    return repr(value)


def _escape_label(text: str) -> str:
    """Escape backslash, quote and line feed in a label value, and replace what UTF-8 can't hold."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return escaped.encode("utf-8", "replace").decode()


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
