"""The ratios of a run as an SVG bar chart. Pure.

One bar a figure on a logarithmic scale: 1 is the peer, to the right Paddock is
better. A small mark shows the goal.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10

from bench.report import Line

WIDTH = 860
LABELS_WIDTH = 300
ROW_HEIGHT = 26
BAR_HEIGHT = 14
TOP = 58
BOTTOM = 34
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)

BETTER, WORSE, AXIS, TEXT, GOAL = "#2a7f62", "#b3552e", "#c9c9c9", "#333333", "#1b1b1b"


def chart(lines: Sequence[Line]) -> str:
    """The chart of every line that has a ratio."""
    shown = [(line, line.ratio) for line in lines if line.ratio is not None]
    ratios = [ratio for _, ratio in shown] + [line.figure.goal or 1 for line, _ in shown]
    scale = _Scale(min(*ratios, 0.5), max(*ratios, 2))
    height = TOP + ROW_HEIGHT * len(shown) + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(16, 26, "Paddock beside Codex's exec-server", size=17),
        _text(16, 44, "times better, measured by one client in one run; | is the goal", size=12),
    ]
    for tick in TICKS:
        if scale.holds(tick):
            parts.append(_tick(scale.x(tick), f"{tick:g}x", height, is_peer=tick == 1))
    for index, (line, ratio) in enumerate(shown):
        parts += _bar(line, ratio, scale, TOP + ROW_HEIGHT * index)
    return "\n".join((*parts, "</svg>", ""))


class _Scale:
    """Ratios to positions."""

    def __init__(self, low: float, high: float) -> None:
        self._low = log10(low) - 0.05
        self._high = log10(high) + 0.05

    def holds(self, ratio: float) -> bool:
        return self._low <= log10(ratio) <= self._high

    def x(self, ratio: float) -> float:
        share = (log10(ratio) - self._low) / (self._high - self._low)
        return LABELS_WIDTH + share * (WIDTH - LABELS_WIDTH - 70)


def _tick(x: float, label: str, height: int, *, is_peer: bool) -> str:
    line = _line(x, TOP - 6, height - BOTTOM, AXIS, 1.6 if is_peer else 0.6)
    return line + _text(x, height - BOTTOM + 16, label, size=11, anchor="middle")


def _bar(line: Line, ratio: float, scale: _Scale, y: float) -> list[str]:
    start, end = sorted((scale.x(1), scale.x(ratio)))
    middle = y + ROW_HEIGHT / 2
    colour = BETTER if ratio >= 1 else WORSE
    shown = f"{ratio:.2g}x" if ratio < 10 else f"{ratio:.0f}x"
    place = f'x="{start:.1f}" y="{middle - BAR_HEIGHT / 2:.1f}"'
    size = f'width="{max(end - start, 1):.1f}" height="{BAR_HEIGHT}"'
    parts = [
        _text(LABELS_WIDTH - 10, middle + 4, line.figure.title, size=12, anchor="end"),
        f'<rect {place} {size} rx="2" fill="{colour}"/>',
        _text(scale.x(max(ratio, 1)) + 6, middle + 4, shown, size=12),
    ]
    if line.figure.goal is not None:
        parts.append(_line(scale.x(line.figure.goal), middle - 9, middle + 9, GOAL, 1.4))
    return parts


def _line(x: float, top: float, bottom: float, colour: str, width: float) -> str:
    ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, *, size: int, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{TEXT}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
