"""One finding of `paddock doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, how it is, and the way out if it is not as it should be."""

    name: str
    level: Level
    detail: str
    remedy: str | None = None
