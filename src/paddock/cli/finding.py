"""One finding of `paddock doctor`."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True):
    """One thing, its state, and the remedy if it is not as it should be."""

    name: str
    level: Level
    detail: str
    remedy: str | None = None
