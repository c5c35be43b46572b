"""Patches in the format that Codex models write: text in, changes to files out. Pure.

    *** Begin Patch
    *** Update File: src/app.py
    *** Move to: src/main.py
    @@ def start():
    -    run()
    +    run(port=80)
    *** Add File: notes.txt
    +One line.
    *** Delete File: old.txt
    *** End Patch

A change of a file names lines by what they are, not by number; `patch_match` finds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from paddock.errors import InvalidPatch

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"
ADD: Final = "*** Add File: "
DELETE: Final = "*** Delete File: "
UPDATE: Final = "*** Update File: "
MOVE: Final = "*** Move to: "
END_OF_FILE: Final = "*** End of File"
CONTEXT: Final = "@@"

_HEADERS: Final = (ADD, DELETE, UPDATE)


class Chunk(Struct, frozen=True):
    """Lines that stand in a file one after the other, and those that take their place."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    contexts: tuple[str, ...] = ()
    """Lines to be found first, each behind the one before."""
    is_at_end: bool = False
    """Whether the lines are the last of the file."""


class AddFile(Struct, frozen=True):
    """A file is to have exactly this text, whether it exists or not."""

    path: str
    text: str


class DeleteFile(Struct, frozen=True):
    """A file is to be removed."""

    path: str


class UpdateFile(Struct, frozen=True):
    """Chunks of a file are to be replaced, in the order of the file, and the file perhaps to be moved."""

    path: str
    chunks: tuple[Chunk, ...]
    target: str | None = None


Change = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> tuple[Change, ...]:
    """Read a patch. Raises InvalidPatch with the number of the line that is wrong."""
    # Not `splitlines`: a form feed, for example, is part of a line.
    lines = _unwrapped([line.removesuffix("\r") for line in text.strip().split("\n")])
    if not lines or lines[0].strip() != BEGIN:
        raise InvalidPatch(1, f"a patch begins with the line `{BEGIN}`")
    if lines[-1].strip() != END:
        raise InvalidPatch(len(lines), f"a patch ends with the line `{END}`")
    changes = tuple(_Parser(lines).changes())
    if not changes:
        raise InvalidPatch(1, "the patch changes no file")
    return changes


def _unwrapped(lines: list[str]) -> list[str]:
    """Return the lines without the here-document with which models sometimes wrap a patch."""
    if len(lines) >= 4 and lines[0] in ("<<EOF", "<<'EOF'", '<<"EOF"') and lines[-1].endswith("EOF"):
        return lines[1:-1]
    return lines


class _Parser:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 1
        self._last = len(lines) - 1

    def changes(self) -> Iterator[Change]:
        while self._at < self._last:
            header = self._lines[self._at].strip()
            if not header:
                self._at += 1
            elif header.startswith(ADD):
                yield self._addition(self._path(header, ADD))
            elif header.startswith(DELETE):
                yield DeleteFile(self._path(header, DELETE))
            elif header.startswith(UPDATE):
                yield self._update(self._path(header, UPDATE))
            else:
                forms = ", ".join(f"`{form}PATH`" for form in _HEADERS)
                raise self._wrong(f"{header!r} begins no change; expected one of {forms}")

    def _path(self, header: str, form: str) -> str:
        path = header.removeprefix(form).strip()
        if not path or "\0" in path:
            raise self._wrong("a path is missing")
        self._at += 1
        return path

    def _addition(self, path: str) -> AddFile:
        text = []
        while self._at < self._last and self._lines[self._at].startswith("+"):
            text.append(self._lines[self._at][1:] + "\n")
            self._at += 1
        return AddFile(path, "".join(text))

    def _update(self, path: str) -> UpdateFile:
        start = self._at
        target = None
        if self._at < self._last and self._lines[self._at].startswith(MOVE):
            target = self._path(self._lines[self._at].strip(), MOVE)
        chunks: list[Chunk] = []
        while self._at < self._last and not self._lines[self._at].startswith(_HEADERS):
            if self._lines[self._at].strip():
                chunks.append(self._chunk(is_first=not chunks))
            else:
                self._at += 1
        if not chunks:
            raise InvalidPatch(start, f"the update of {path} changes nothing")
        return UpdateFile(path, tuple(chunks), target)

    def _chunk(self, *, is_first: bool) -> Chunk:
        contexts = []
        while self._at < self._last and _is_context(self._lines[self._at]):
            if context := self._lines[self._at][len(CONTEXT) + 1 :]:
                contexts.append(context)
            is_first = True
            self._at += 1
        if not is_first:
            raise self._wrong(
                f"{self._lines[self._at]!r} stands outside of a chunk; begin one with `{CONTEXT}`"
            )
        old: list[str] = []
        new: list[str] = []
        start = self._at
        while self._at < self._last:
            line = self._lines[self._at]
            if line.startswith("***") or _is_context(line):
                break
            if line[:1] not in ("", " ", "-", "+"):
                if self._at == start:
                    raise self._wrong(f"{line!r} begins neither with a space nor with `-` or `+`")
                break
            if line[:1] != "+":
                old.append(line[1:])
            if line[:1] != "-":
                new.append(line[1:])
            self._at += 1
        if self._at == start:
            raise self._wrong("a chunk is empty")
        is_at_end = self._at < self._last and self._lines[self._at].strip() == END_OF_FILE
        self._at += is_at_end
        return Chunk(tuple(old), tuple(new), tuple(contexts), is_at_end)

    def _wrong(self, problem: str) -> InvalidPatch:
        return InvalidPatch(self._at + 1, problem)


def _is_context(line: str) -> bool:
    return line == CONTEXT or line.startswith(f"{CONTEXT} ")
