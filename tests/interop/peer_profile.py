"""A profile for the peer's sandbox that touches nothing but the workspace."""

from __future__ import annotations

from tests.sandbox.profiles import PROJECT_ROOTS, ROOT, Json, entry

WORKSPACE_ALONE: Json = {
    "type": "managed",
    "file_system": {"type": "restricted", "entries": [entry(ROOT, "read"), entry(PROJECT_ROOTS, "write")]},
    "network": "restricted",
}
"""Like `:workspace`, without /tmp: the peer makes and removes directories in what can be written, and tests
that run meanwhile see those in /tmp."""
