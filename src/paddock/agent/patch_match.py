"""A file with the chunks of a patch put in. Pure.

Lines are looked for as they are written, then without blanks at their ends, then without blanks around
them, then with typographic quotes, dashes and spaces taken for plain ones: models copy text from what they
were shown. The lines that go in are those of the patch, in the line ends of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from paddock.agent.patch import Chunk
from paddock.errors import PatchMismatch, PatchTooLong

_PLAIN: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys(
            "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "
        ),
    }
)


def _as_written(line: str) -> str:
    return line


def _plain(line: str) -> str:
    return line.strip().translate(_PLAIN)


STEPS_LIMIT: Final = 5_000_000
"""Lines to look at for all chunks of a file together: about a second."""

_READINGS: Final[tuple[Callable[[str], str], ...]] = (_as_written, str.rstrip, str.strip, _plain)


def patched(path: str, text: str, chunks: Sequence[Chunk]) -> str:
    """Return the text with all chunks in it, ending with a line end.

    Raises PatchMismatch, and PatchTooLong for a patch whose chunks take too long to find.
    """
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    search = _Search(path, lines)
    result: list[str] = []
    at = 0
    for chunk in chunks:
        start, length, new = _position(search, at, chunk)
        result += lines[at:start]
        result += new
        at = start + length
    result += lines[at:]
    return "".join(f"{line}{line_end}" for line in result)


class _Search:
    """Looks for lines in a file, one step for each line of either, and takes a bounded number of steps."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self.path = path
        self.line_count = len(lines)
        self._lines = lines
        self._read: dict[Callable[[str], str], tuple[list[str], frozenset[str]]] = {}
        self._steps_left = STEPS_LIMIT

    def find(self, wanted: Sequence[str], at: int, *, is_at_end: bool = False) -> int | None:
        """Return where the lines stand one after the other, from `at` on: at the end first, if they should.

        Raises PatchTooLong.
        """
        last = self.line_count - len(wanted)
        begin = last if is_at_end and last >= at else at
        for reading in _READINGS:
            target = [reading(line) for line in wanted]
            found = self._find(reading, target, begin)
            if found is not None:
                return found
        return self.find(wanted, at) if is_at_end else None

    def _find(self, reading: Callable[[str], str], target: Sequence[str], begin: int) -> int | None:
        lines, known = self._lines_as(reading)
        self._step(len(target))
        if not target:
            return begin
        if not known.issuperset(target):
            return None
        # Knuth, Morris and Pratt: how many lines of the target still fit where the next one does not.
        fitting = [0]
        fits = 0
        for line in target[1:]:
            while fits and line != target[fits]:
                fits = fitting[fits - 1]
            fits += line == target[fits]
            fitting.append(fits)
        fits = 0
        for number in range(begin, len(lines)):
            while fits and lines[number] != target[fits]:
                fits = fitting[fits - 1]
            fits += lines[number] == target[fits]
            if fits == len(target):
                self._step(number - begin)
                return number - fits + 1
        self._step(len(lines) - begin)
        return None

    def _lines_as(self, reading: Callable[[str], str]) -> tuple[list[str], frozenset[str]]:
        if reading not in self._read:
            lines = [reading(line) for line in self._lines]
            self._read[reading] = lines, frozenset(lines)
        return self._read[reading]

    def _step(self, count: int) -> None:
        self._steps_left -= max(count, 1)
        if self._steps_left < 0:
            raise PatchTooLong(self.path)


def _position(search: _Search, at: int, chunk: Chunk) -> tuple[int, int, Sequence[str]]:
    """Return where the chunk begins, how many lines it replaces, and by which."""
    for context in chunk.contexts:
        found = search.find((context,), at)
        if found is None:
            raise PatchMismatch(search.path, (context,))
        at = found + 1
    if not chunk.old:
        return search.line_count, 0, chunk.new
    found = search.find(chunk.old, at, is_at_end=chunk.is_at_end)
    if found is not None:
        return found, len(chunk.old), chunk.new
    if chunk.old[-1] == "":
        # The empty line stands for the end of the file, which has none.
        old, new = chunk.old[:-1], chunk.new[:-1] if chunk.new[-1:] == ("",) else chunk.new
        found = search.find(old, at, is_at_end=chunk.is_at_end)
        if found is not None:
            return found, len(old), new
    raise PatchMismatch(search.path, chunk.old)
