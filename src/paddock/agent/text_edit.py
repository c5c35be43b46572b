"""A text replaced in the content of a file, for servers that can't do it themselves. Pure."""

from __future__ import annotations

from difflib import unified_diff

from paddock.errors import InvalidRequest


def edited(path: str, data: bytes, old: str, new: str, count: int) -> tuple[bytes, str]:
    """Return the new content and the diff. Raises InvalidRequest unless `old` occurs exactly so often."""
    before = data.decode("utf-8", "surrogateescape")
    if before.count(old) != count:
        problem = f"the old text occurs {before.count(old)} times in {path}, not {count}; nothing was changed"
        raise InvalidRequest(problem)
    after = before.replace(old, new)
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), path, path)
    return after.encode("utf-8", "surrogateescape"), "".join(lines)
