"""What can become of a path."""

from __future__ import annotations

from enum import StrEnum


class ChangeKind(StrEnum):
    """What became of a path. A move is a deletion in one place and a creation in the other."""

    CREATED = "created"
    MODIFIED = "modified"
    DELETED = "deleted"
