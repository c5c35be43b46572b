"""A file with the chunks of a patch put in. Pure.

Lines are looked for as they are written, then without blanks at their ends, then without blanks around
them, then with typographic quotes, dashes and spaces taken for plain ones: models copy text from what they
were shown. The lines that go in are those of the patch, in the line ends of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from paddock.agent.patch import Chunk
from paddock.errors import PatchMismatch

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


_READINGS: Final[tuple[Callable[[str], str], ...]] = (_as_written, str.rstrip, str.strip, _plain)


def patched(path: str, text: str, chunks: Sequence[Chunk]) -> str:
    """Return the text with all chunks in it, ending with a line end. Raises PatchMismatch."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    result: list[str] = []
    at = 0
    for chunk in chunks:
        start, length, new = _position(path, lines, at, chunk)
        result += lines[at:start]
        result += new
        at = start + length
    result += lines[at:]
    return "".join(f"{line}{line_end}" for line in result)


def _position(path: str, lines: list[str], at: int, chunk: Chunk) -> tuple[int, int, Sequence[str]]:
    """Return where the chunk begins, how many lines it replaces, and by which."""
    for context in chunk.contexts:
        found = _find(lines, (context,), at)
        if found is None:
            raise PatchMismatch(path, (context,))
        at = found + 1
    if not chunk.old:
        return len(lines), 0, chunk.new
    found = _find(lines, chunk.old, at, is_at_end=chunk.is_at_end)
    if found is not None:
        return found, len(chunk.old), chunk.new
    if chunk.old[-1] == "":
        # The empty line stands for the end of the file, which has none.
        old, new = chunk.old[:-1], chunk.new[:-1] if chunk.new[-1:] == ("",) else chunk.new
        found = _find(lines, old, at, is_at_end=chunk.is_at_end)
        if found is not None:
            return found, len(old), new
    raise PatchMismatch(path, chunk.old)


def _find(lines: Sequence[str], wanted: Sequence[str], at: int, *, is_at_end: bool = False) -> int | None:
    """Return where the lines stand one after the other, from `at` on: at the end first, if they should."""
    last = len(lines) - len(wanted)
    for reading in _READINGS:
        target = [reading(line) for line in wanted]
        starts = range(at, last + 1)
        if is_at_end and last >= at:
            starts = range(last, last + 1)
        for start in starts:
            if all(reading(lines[start + index]) == line for index, line in enumerate(target)):
                return start
    return _find(lines, wanted, at) if is_at_end else None
