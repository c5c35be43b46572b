"""Selects the records that somebody wants to see. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

Record = Mapping[str, Any]
"""A line of the log as it is read: another version, or an attacker, may have written it."""


def record_of(line: bytes) -> Record | None:
    """Return the record of a line; None if the line is not a record."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) and {"seq", "time", "kind"} <= found.keys() else None


class Query(Struct, frozen=True):
    """Conditions on a record. An empty field matches every record."""

    kinds: frozenset[str] = frozenset()
    session: str = ""
    """The beginning of a session id, or a whole one, of which the log has the beginning."""
    process: str = ""
    since: str = ""
    """A time in the form of records (`chain.time_text`)."""

    def takes(self, record: Record) -> bool:
        """Return whether the record matches the query."""
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
