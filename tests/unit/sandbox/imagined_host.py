"""A file system that does not exist, for plans."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from paddock.sandbox.host.look import Kind, Link, PathFact
from paddock.sandbox.host.placeholder import PlaceholderKind
from paddock.sandbox.profile.path import ROOT, ancestors, join, parent

PLACE = "held"
"""The content of a directory that is the placeholder of other commands."""

DAMAGED = "damaged"
"""The content of a HEAD for which git does not take its directory for a repository."""

CIRCLE = "circle"
"""The content of a link that leads to itself."""

CLOSED = "closed"
"""The content of a directory that can't be searched."""


class ImaginedFiles:
    """`{"/repo/": "", "/repo/f": "text", "/l": "-> /repo"}`: a directory, a file and a link."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files: dict[str, str | None] = {ROOT: None}
        for path, content in files.items():
            name = path.rstrip("/") or ROOT
            for directory in ancestors(name):
                self._files.setdefault(directory, None)
            self._files[name] = None if path.endswith("/") else content

    def at(self, path: str) -> PathFact:
        here = PathFact(Kind.DIRECTORY, ROOT)
        for name in filter(None, path.split("/")):
            real = join(here.real, name)
            if name == "..":
                here = replace(self.at(parent(here.real)), links=here.links)
            elif here.first_missing is not None:
                here = PathFact(Kind.MISSING, real, here.links, here.first_missing)
            elif self._files[here.real] == CLOSED:
                here = PathFact(Kind.MISSING, real, here.links, real, is_hidden=True)
            elif real not in self._files:
                here = PathFact(Kind.MISSING, real, here.links, real)
            else:
                here = self._found(real, self._files[real], here)
        return here

    def _found(self, path: str, content: str | None, directory: PathFact) -> PathFact:
        if content is None or content == CLOSED:
            return PathFact(Kind.DIRECTORY, path, directory.links)
        if content == CIRCLE:
            links = (*directory.links, Link(path, path))
            return PathFact(Kind.MISSING, path, links, path, is_circle=True)
        if content == PLACE:
            held = PlaceholderKind.DIRECTORY
            return PathFact(Kind.MISSING, path, directory.links, path, placeholder=held)
        if not content.startswith("-> "):
            return PathFact(Kind.FILE, path, directory.links)
        target = self.at(content.removeprefix("-> "))
        links = (*directory.links, Link(path, content.removeprefix("-> ")), *target.links)
        return PathFact(target.kind, target.real, links, target.first_missing)

    def gitdir(self, path: str) -> str | None:
        content = self._files.get(self.at(path).real) or ""
        return content.removeprefix("gitdir: ") if content.startswith("gitdir: ") else None

    def commondir(self, directory: str) -> str | None:
        return self._files.get(f"{directory}/commondir")

    def mercurial_share(self, path: str) -> str | None:
        return self._files.get(path)

    def jujutsu_target(self, path: str) -> str | None:
        return self._files.get(path)

    def worktrees(self, directory: str) -> list[str]:
        return (self._files.get(f"{directory}/config") or "").split()

    def is_git_directory(self, directory: str) -> bool:
        return self._files.get(f"{directory}/HEAD", DAMAGED) != DAMAGED

    def gitlinks(self, directory: str) -> list[str]:
        return [name for name in self._indexed(directory) if not name.endswith("/")]

    def sparse_directories(self, directory: str) -> list[str]:
        return [name.rstrip("/") for name in self._indexed(directory) if name.endswith("/")]

    def _indexed(self, directory: str) -> list[str]:
        return (self._files.get(f"{directory}/index") or "").split()

    def is_empty(self, directory: str) -> bool:
        return not any(path.startswith(f"{directory}/") for path in self._files)

    def is_open(self, directory: str) -> bool:
        return directory == "/open"

    def can_grow(self, directory: str) -> bool:
        return directory in self._files
