"""The directory that a recorded conversation is about: made before it, changed and looked at within it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.conformance.pattern import Mismatch
from tests.conformance.transcript import Tree

VARIABLE = "ROOT"
"""What recordings call its path."""


class Workplace:
    """A directory of one conversation; all paths are relative to it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    @property
    def path(self) -> str:
        return str(self._root)

    def set_up(self, tree: Tree) -> None:
        for directory in tree.dirs:
            self.make_directory(directory)
        for name, content in tree.files.items():
            self._place(name).write_text(content)
        for name, target in tree.symlinks.items():
            self._place(name).symlink_to(target)
        for name in tree.fifos:
            os.mkfifo(self._place(name))

    def make_directory(self, name: str) -> None:
        (self._root / name).mkdir(parents=True, exist_ok=True)

    def touch(self, name: str) -> None:
        self._place(name).touch()

    def check_file(self, name: str, content: str | None) -> None:
        """Raise Mismatch unless the file has this content, or does not exist if there is none."""
        path = self._root / name
        found = path.read_text() if path.exists() else None
        if found != content:
            raise Mismatch(f"file {name}: expected {content!r}, found {found!r}")

    def _place(self, name: str) -> Path:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
