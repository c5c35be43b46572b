"""Wraps the prose of the Markdown files evenly: each line takes the words that fit.

    python -m scripts.wrap_prose            rewrites the files
    python -m scripts.wrap_prose --check    only names those that would change, and fails if there are any

It leaves everything else as it is: code, tables, headings, comments, and the pages that other programs write.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FILES: Final = ("*.md", "docs/**/*.md", "patches/*.md", "tests/**/*.md")
WIDTH: Final = 120

GENERATED: Final = frozenset(
    f"docs/{page}.md"
    for page in (
        "explanation/ecosystems",
        *(f"reference/{name}" for name in ("cli", "config", "events", "metrics", "protocol", "python")),
    )
)

_FENCE: Final = re.compile(r" *```")
_ITEM: Final = re.compile(r" {0,3}(?:[-*]|\d+\.) +")
_NO_PROSE: Final = re.compile(r" {4}|[|#<]|$")
_WORD: Final = re.compile(r"(?:`[^`]*`|`(?![^`]*`)|[^\s`])+")
"""A span of code counts whole; a backtick that opens none is a letter like any other."""
_BULLET: Final = re.compile(r"[-+*#>|=]+|\d+[.)]")
"""Words that would begin something else at the beginning of a line."""


def wrapped(text: str) -> str:
    """Return a Markdown text with its prose wrapped."""
    lines = text.split("\n")
    result: list[str] = []
    number = 0
    while number < len(lines):
        end = _end_of_block(lines, number)
        if end is not None:
            result += lines[number:end]
        else:
            end = _end_of_paragraph(lines, number)
            result += _filled(lines[number:end])
        number = end
    return "\n".join(result)


def _end_of_block(lines: list[str], start: int) -> int | None:
    """Return where something that is no prose ends; None if it is prose."""
    line = lines[start]
    if _FENCE.match(line):
        return _after(lines, start, lambda later: bool(_FENCE.match(later)))
    if line.startswith("<!--"):
        return start + 1 if "-->" in line else _after(lines, start, lambda later: "-->" in later)
    return start + 1 if _NO_PROSE.match(line) else None


def _after(lines: list[str], start: int, is_last: Callable[[str], bool]) -> int:
    return next((at + 1 for at in range(start + 1, len(lines)) if is_last(lines[at])), len(lines))


def _end_of_paragraph(lines: list[str], start: int) -> int:
    indent = _indent(lines[start])
    for at in range(start + 1, len(lines)):
        line = lines[at]
        body = line[len(indent) :]
        if not line.startswith(indent) or _NO_PROSE.match(body) or _ITEM.match(line) or _FENCE.match(line):
            return at
    return len(lines)


def _indent(line: str) -> str:
    item = _ITEM.match(line)
    return " " * (item.end() if item else len(line) - len(line.lstrip(" ")))


def _filled(paragraph: list[str]) -> Iterator[str]:
    indent = _indent(paragraph[0])
    line = paragraph[0][: len(indent)]
    words = _words(" ".join(each[len(indent) :] for each in paragraph))
    line += next(words, "")
    for word in words:
        if len(line) + 1 + len(word) <= WIDTH:
            line += f" {word}"
        else:
            yield line
            line = indent + word
    yield line


def _words(text: str) -> Iterator[str]:
    """Yield the words; one holds a span of code whole, and one that must not begin a line follows its own."""
    held = ""
    for word in _WORD.findall(text):
        if held and not _BULLET.fullmatch(word):
            yield held
            held = word
        else:
            held = f"{held} {word}".lstrip()
    if held:
        yield held


def main() -> int:
    """Rewrite the files, or check them."""
    is_check = "--check" in sys.argv
    changed = []
    for path in sorted(path for pattern in FILES for path in ROOT.glob(pattern)):
        name = str(path.relative_to(ROOT))
        text = path.read_text(encoding="utf-8")
        if name not in GENERATED and (new := wrapped(text)) != text:
            changed.append(name)
            if not is_check:
                path.write_text(new, encoding="utf-8")
    for name in changed:
        print(f"{name}: {'would be wrapped; run: make format' if is_check else 'wrapped'}")
    return int(is_check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
