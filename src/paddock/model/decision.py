"""What rules say about a command, and why.

The code that makes decisions, asks people about them, carries them out and records them shares these values.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct


class Action(StrEnum):
    """What may be done with a command, from the mildest to the strictest."""

    ALLOW = "allow"
    """Run it without asking."""
    PROMPT = "prompt"
    """Ask somebody first."""
    FORBIDDEN = "forbidden"
    """Do not run it, whoever asks."""


_STRICTNESS = {action: strictness for strictness, action in enumerate(Action)}


def strictest(actions: Iterable[Action]) -> Action | None:
    """Return the strictest of some actions; None if there are none."""
    return max(actions, key=_STRICTNESS.__getitem__, default=None)


class Origin(Struct, frozen=True):
    """The call that made a rule."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


class RuleMatch(Struct, frozen=True):
    """A rule that fits a command."""

    prefix: tuple[str, ...]
    """The words of the command that the rule names, as the rule names them."""
    action: Action
    origin: Origin
    justification: str | None = None
    resolved_program: str | None = None
    """The file that the command names, if the rule names only the last part of its path."""


class Decision(Struct, frozen=True):
    """What all rules together say about a command.

    `action` is None when no rule applies: the caller then acts as it would without rules.
    None grants less than `ALLOW`, which may lift a restriction.
    """

    action: Action | None
    command: tuple[str, ...]
    """What the decision is about; of several commands, the one that decides."""
    matches: tuple[RuleMatch, ...] = ()
    """Every rule that fits, in the order in which they were loaded."""
    broken_files: tuple[str, ...] = ()
    """The files that failed to load and might have had a rule, if no rule applies."""

    @property
    def decisive(self) -> RuleMatch | None:
        """Return the rule that decides: of the strictest, the most specific, because it says the most."""
        strict = (match for match in self.matches if match.action is self.action)
        return max(strict, key=lambda match: len(match.prefix), default=None)

    @property
    def justification(self) -> str | None:
        """Return why, in the words of the author of the rule that decides."""
        decisive = self.decisive
        return decisive.justification if decisive is not None else None

    @property
    def reason(self) -> str:
        """Return one sentence for people: which rule decides, or why none does."""
        command = _shown(self.command)
        if (decisive := self.decisive) is not None:
            sentence = f"{command} {_VERDICTS[decisive.action]} by {decisive.origin}"
            return f"{sentence}: {decisive.justification}" if decisive.justification else sentence
        if self.broken_files:
            files = ", ".join(self.broken_files)
            return f"{command} requires approval: no rule is about it, and these rules are broken: {files}"
        return f"no rule is about {command}"


_VERDICTS = {
    Action.ALLOW: "is allowed",
    Action.PROMPT: "requires approval",
    Action.FORBIDDEN: "is forbidden",
}

SHOWN_COMMAND_CHARACTERS = 200
"""How much of a command a sentence shows; arguments may be whole files."""


def _shown(command: tuple[str, ...]) -> str:
    from paddock.quotation import quoted_words

    # Join only as many words as fit: a command may have hundreds of thousands.
    text = quoted_words(command[: SHOWN_COMMAND_CHARACTERS + 1])
    if len(text) > SHOWN_COMMAND_CHARACTERS:
        text = f"{text[:SHOWN_COMMAND_CHARACTERS]}…"
    return f"`{text}`"
