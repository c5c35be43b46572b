"""One rule: which commands it fits. Pure.

A rule knows neither the other rules nor the files that it came from; `policy` combines
rules and `declaration` makes them from what a file says.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from paddock.model.decision import Action, Origin

Alternatives = tuple[str, ...]
"""The words that may stand in one position of a command; at least one."""

Pattern = tuple[Alternatives, ...]
"""The positions of a command from its program on; at least one."""

END_OF_FLAGS = "--"


class PrefixRule(Struct, frozen=True):
    """Fits every command that begins like its pattern, but not like one of its exceptions."""

    pattern: Pattern
    """The first position holds one word, the program: a declaration with several makes a rule for each."""
    action: Action
    origin: Origin
    justification: str | None = None
    unless: tuple[Pattern, ...] = ()
    has_free_flags: bool = False
    """Flags of the patterns may stand anywhere, and other flags may stand between the words."""

    @property
    def program(self) -> str:
        """Return the first word of every command that it fits."""
        return self.pattern[0][0]

    def matched_prefix(self, command: Sequence[str]) -> tuple[str, ...] | None:
        """Return the words of the pattern that the command has, None if the rule does not fit."""
        matched = matched_freely if self.has_free_flags else matched_in_order
        prefix = matched(self.pattern, command)
        if prefix is None or not self.unless:
            return prefix
        if any(matched(pattern, command) is not None for pattern in self.unless):
            return None
        return prefix

    def may_fit(self, beginning: Sequence[str]) -> bool:
        """Return whether it may fit some command that begins with these words."""
        matched = matched_freely if self.has_free_flags else matched_in_order
        is_excepted = any(matched(pattern, beginning) is not None for pattern in self.unless)
        return not is_excepted and self._may_match(self.pattern, beginning)

    def fits_all(self, beginning: Sequence[str]) -> bool:
        """Return whether it certainly fits every command that begins with these words."""
        may_be_excepted = any(self._may_match(pattern, beginning) for pattern in self.unless)
        return not may_be_excepted and self.matched_prefix(beginning) is not None

    def _may_match(self, pattern: Pattern, beginning: Sequence[str]) -> bool:
        words, places = beginning, pattern
        if self.has_free_flags:
            # The flags may follow.
            words, _ = _sorted_apart(beginning)
            places = tuple(alternatives for alternatives in pattern if not is_flag(alternatives[0]))
        return all(word in alternatives for alternatives, word in zip(places, words, strict=False))


def matched_in_order(pattern: Pattern, command: Sequence[str]) -> tuple[str, ...] | None:
    """Return the beginning of the command, if it matches the pattern word for word."""
    if len(command) < len(pattern):
        return None
    for alternatives, word in zip(pattern, command, strict=False):
        if word not in alternatives:
            return None
    return tuple(command[: len(pattern)])


def matched_freely(pattern: Pattern, command: Sequence[str]) -> tuple[str, ...] | None:
    """Match as `matched_in_order` does, but with flags anywhere.

    The words of the pattern are compared with the words of the command in order, past its
    flags; the flags of the pattern may be anywhere among the flags of the command. A flag's
    value in a word of its own is a word like any other: nothing here knows the options of
    programs. After `--` there are no flags.
    """
    if not command:
        return None
    words, flags = _sorted_apart(command)
    next_word = 0
    prefix: list[str] = []
    for alternatives in pattern:
        if is_flag(alternatives[0]):
            found = next((flag for flag in alternatives if _is_given(flag, flags)), None)
            if found is None:
                return None
            prefix.append(found)
        else:
            if next_word == len(words) or words[next_word] not in alternatives:
                return None
            prefix.append(words[next_word])
            next_word += 1
    return tuple(prefix)


def is_flag(word: str) -> bool:
    """Return whether a word is an option: a lone `-` is an operand, usually standard input."""
    return word.startswith("-") and word not in ("-", END_OF_FLAGS)


def _sorted_apart(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words and the flags of a command. The program is always a word, whatever its name."""
    words, flags = [command[0]], list[str]()
    for index, word in enumerate(command[1:], start=1):
        if word == END_OF_FLAGS:
            words += command[index + 1 :]
            break
        (flags if is_flag(word) else words).append(word)
    return words, flags


def _is_given(flag: str, flags: Sequence[str]) -> bool:
    """Return whether a flag is given: as it is, with a value (`--force=yes`), or in a bundle (`-rf`)."""
    if flag in flags:
        return True
    if flag.startswith("--"):
        return any(given.startswith(f"{flag}=") for given in flags)
    if len(flag) == 2:
        return any(flag[1] in given[1:] for given in flags if not given.startswith("--"))
    return False
