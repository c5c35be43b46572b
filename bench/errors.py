"""What can go wrong with a measurement."""

from __future__ import annotations


class BenchError(Exception):
    """A figure can't be measured; the text says why. Other rows go on."""
