"""Rules about commands: files, calls and amendments that are refused."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.errors.base import PaddockError


class RulesError(PaddockError):
    """Rules about commands can't be loaded, or changed."""


class InvalidRule(RulesError):
    """A call in a file of rules has no meaning. The text is for the file's author."""


class RulesFileError(RulesError):
    """A file of rules is not in force: it can't be read, or something in it is wrong."""

    def __init__(
        self, path: str, problem: str, position: tuple[int, int] | None, excerpt: str, *, is_unreadable: bool
    ) -> None:
        super().__init__(path, problem, position, excerpt, is_unreadable)
        self.path = path
        self.problem = problem
        self.position = position
        """Line and column, counted from 1; None if the error concerns the whole file."""
        self.excerpt = excerpt
        self.is_unreadable = is_unreadable

    def __str__(self) -> str:
        failure = "read" if self.is_unreadable else "parse"
        where = f", line {self.position[0]}, column {self.position[1]}" if self.position is not None else ""
        sentence = f"failed to {failure} policy at {self.path}{where}: {self.problem}"
        return f"{sentence}\n{self.excerpt}" if self.excerpt else sentence


class RulesUnavailable(RulesError):
    """A library that only rules need is not installed."""

    def __init__(self, purpose: str, library: str) -> None:
        super().__init__(purpose, library)
        self.purpose = purpose
        self.library = library

    def __str__(self) -> str:
        return f"can't {self.purpose} without {self.library}; install paddock-exec[rules]"


class AmendmentRefused(RulesError):
    """The prefix covers too much for a command to allow it for good. The file is unchanged."""

    def __init__(self, prefix: Sequence[str], problem: str) -> None:
        super().__init__(prefix, problem)
        self.prefix = prefix
        self.problem = problem

    def __str__(self) -> str:
        import shlex

        return (
            f"`{shlex.join(self.prefix)}` is not added: {self.problem}; name more words of the command, "
            "or write the rule into the file yourself"
        )
