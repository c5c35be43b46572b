"""The ways in which a path can change."""

from __future__ import annotations

from enum import StrEnum


class ChangeKind(StrEnum):
    """How a path changed. A move is a deletion in one place and a creation in the other."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
