"""Selects the records that somebody wants to see. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

Record = Mapping[str, Any]
"""A line of the log as it is read: whoever wrote it may have been another version, or an attacker."""


def record_of(line: bytes) -> Record | None:
    """Return the record of a line; None if it is none."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) and {"seq", "time", "kind"} <= found.keys() else None


class Query(Struct, frozen=True):
    """What a record must be like; what is empty does not matter."""

    kinds: frozenset[str] = frozenset()
    session: str = ""
    """The beginning of a session id, or a whole one, of which the log has the beginning."""
    process: str = ""
    since: str = ""
    """A moment as records have it (`chain.time_text`)."""

    def takes(self, record: Record) -> bool:
        """Return whether the query asks for the record."""
        session, process = str(record.get("session", "")), str(record.get("process", ""))
        is_of_session = session.startswith(self.session) or (
            session != "" and self.session.startswith(session)
        )
        return (
            (not self.kinds or record["kind"] in self.kinds)
            and is_of_session
            and process.startswith(self.process)
            and str(record["time"]) >= self.since
        )
