"""Reads what paddock-init reports about its command (native/report.h)."""

from __future__ import annotations

import struct
from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_REPORT: Final = struct.Struct("<Ii3Q")


class ReportKind(IntEnum):
    """The outcome of the command."""

    EXITED = 1
    NOT_EXECUTED = 2
    NOT_CONFINED = 3
    WALL_LIMIT = 4
    CONFINED = 5
    PROCESS_LIMIT = 6
    BREACH = 7
    WAITING = 8
    SUSPENDED = 9
    RAN = 10

    @property
    def ends_command(self) -> bool:
        """Return whether the init has killed the command because of this."""
        return self in (ReportKind.WALL_LIMIT, ReportKind.BREACH, ReportKind.RAN)


class Report:
    """One report. `value` is a status as of wait(2) for EXITED, otherwise an errno."""

    __slots__ = ("kind", "max_rss_kib", "system_us", "user_us", "value")

    def __init__(self, kind: ReportKind, value: int, user_us: int, system_us: int, max_rss_kib: int) -> None:
        self.kind = kind
        self.value = value
        self.user_us = user_us
        self.system_us = system_us
        self.max_rss_kib = max_rss_kib


def read_reports(data: bytes) -> list[Report]:
    """Return every complete report in the data; none if there was no sandbox, or it was killed too early."""
    whole = len(data) - len(data) % _REPORT.size
    return [Report(ReportKind(kind), *rest) for kind, *rest in _REPORT.iter_unpack(data[:whole])]
