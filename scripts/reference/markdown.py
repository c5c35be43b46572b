"""Markdown, as far as the references need it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "<!-- Made by `make reference` from the code. Do not edit: `make check` compares. -->"


def document(title: str, *parts: str) -> str:
    """A page: title, the warning that it is generated, and its parts with a blank line between."""
    return "\n\n".join((f"# {title}", GENERATED, *(part.strip("\n") for part in parts if part))) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty when there are no rows."""
    lines = [_row(row) for row in rows]
    if not lines:
        return ""
    return "\n".join((_row(head), _row(["---"] * len(head)), *lines))


def code(text: str) -> str:
    """Text in the font of code, whatever backticks it holds."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fence(text: str, language: str = "") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def anchor(heading: str) -> str:
    """The fragment by which a heading is linked to, as GitHub makes it."""
    kept = "".join(char for char in heading.lower() if char.isalnum() or char in " -_")
    return "#" + kept.replace(" ", "-")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"
