"""Collects the matches of a search for its answer, from every engine."""

from __future__ import annotations

import os
import time

from paddock.fs.answer import Found, Match
from paddock.fs.operation import Search

MAX_LINE_CHARACTERS = 1000
"""Longest part of a line to show."""

BINARY_PROBE_BYTES = 8192
MAX_ERRORS = 100

OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening found files. Opening never blocks, even if a fifo has replaced the file."""


class MatchCollector:
    """The matches so far, in order, within the limits of a search."""

    def __init__(self, operation: Search) -> None:
        self._limits = operation
        self._deadline_s = time.monotonic() + operation.timeout_s
        self._matches: list[Match] = []
        self._errors: list[str] = []
        self._is_truncated = False

    @property
    def is_over(self) -> bool:
        """Return whether to stop: there are enough matches, or the time is up."""
        if time.monotonic() >= self._deadline_s:
            self._is_truncated = True
        return self._is_truncated

    @property
    def left_s(self) -> float:
        """Return how much time there is left."""
        return max(0.0, self._deadline_s - time.monotonic())

    def add(self, match: Match) -> None:
        """Remember a match; the first one beyond the limit ends the search."""
        if len(self._matches) >= self._limits.max_matches:
            self._is_truncated = True
        else:
            self._matches.append(match)

    def add_line(self, path: bytes, number: int, line: bytes, start: int) -> None:
        """Remember a matching line; `start` is where the match begins in it, in bytes."""
        text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
        column = len(line[:start].decode("utf-8", "replace")) + 1
        is_cut = len(text) > MAX_LINE_CHARACTERS
        self.add(Match(path=path, line=number, column=column, text=text[:MAX_LINE_CHARACTERS], is_cut=is_cut))

    def fail(self, path: bytes, error: OSError) -> None:
        """Note that a path could not be examined."""
        self.fail_text(f"{os.fsdecode(path)}: {os.strerror(error.errno or 0)} (os error {error.errno})")

    def fail_text(self, text: str) -> None:
        """Note a failure in words."""
        if len(self._errors) < MAX_ERRORS:
            self._errors.append(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))

    def truncate(self) -> None:
        """Note that the search ended before it was complete."""
        self._is_truncated = True

    def found(self) -> Found:
        """Return the answer."""
        return Found(matches=self._matches, errors=sorted(self._errors), is_truncated=self._is_truncated)


def is_binary(path: bytes) -> bool:
    """Return whether a file is not text. A file that has vanished is not binary."""
    try:
        descriptor = os.open(path, OPEN_FLAGS)
    except OSError:
        return False
    try:
        return b"\0" in os.pread(descriptor, BINARY_PROBE_BYTES, 0)
    finally:
        os.close(descriptor)
