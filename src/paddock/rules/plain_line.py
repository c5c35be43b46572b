"""Lines of shell that say what they run, letter for letter. Pure.

A rule that allows a command lets it out of the sandbox, so its line must mean to the shell exactly what it
means here. This reader knows a small part of the language and refuses everything else: characters that some
shell might read in another way make a line not plain, whatever they would have meant.
"""

from __future__ import annotations

import re
from typing import Final

_BARE: Final = r"[A-Za-z0-9_./:@%+,=-]"
"""ASCII that means itself outside of quotes, in every position. Backslashes are left out on purpose:
grammars and shells disagree about the character after one."""

_TOKEN: Final = re.compile(
    rf"(?P<blank>[ \t]+)|(?P<operator>&&|\|\||[|;\n])|(?P<bare>(?:{_BARE}|[^\x00-\x7f])+)"
    r"|'(?P<single>(?:[^'\\]|\\(?!['\\]))*)'|\"(?P<double>[^\"$`\\]*)\""
)
"""In fish, a backslash in single quotes hides a quote or a backslash after it."""
_ODD: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
"""Control characters besides tab and newline: form feed and carriage return are blanks to some readers, and
parts of a word to bash."""

_RESERVED: Final = frozenset(
    {
        *("if", "then", "elif", "else", "fi", "time", "for", "in", "until", "while", "do", "done"),
        *("case", "esac", "coproc", "select", "function"),
    }
)
"""Words with a meaning of their own in front of a command; the others have characters that are not bare."""

Commands = tuple[tuple[str, ...], ...]


def plain_commands(line: str) -> Commands | None:
    """Return the commands that a shell runs for a line, in order; None for a line that is not plain.

    A plain line has words in the open or in quotes, blanks and tabs between them, and commands one after the
    other (`;`, ends of lines, `&&`, `||`) or in pipes.
    """
    if _ODD.search(line) or not all(each.isascii() or each.isprintable() for each in line):
        return None
    reader = _Reader()
    at = 0
    while at < len(line):
        token = _TOKEN.match(line, at)
        if token is None:
            return None
        at = token.end()
        if not reader.take(token):
            return None
    return reader.end()


class _Reader:
    """Puts the tokens of a line together."""

    def __init__(self) -> None:
        self._commands: list[tuple[str, ...]] = []
        self._words: list[str] = []
        self._word: str | None = None
        self._is_open = True
        """Whether the whole word so far is outside of quotes."""
        self._needs_command = False
        """Whether the operator before needs a command after it."""

    def take(self, token: re.Match[str]) -> bool:
        """Take the next token; return whether the line may still be plain."""
        kind = token.lastgroup
        if kind == "blank":
            return self._end_word()
        if kind == "operator":
            return self._end_word() and self._end_command(token[0])
        self._is_open = kind == "bare" and (self._word is None or self._is_open)
        # In front of a command, `=` makes a variable, and `%` begins the name of a job.
        if kind == "bare" and not self._words and set("=%") & set(token[0]):
            return False
        # Zsh looks up the program `=name`, and fish writes the number of its process for `%self`.
        if kind == "bare" and self._word is None and token[0].startswith(("=", "%self")):
            return False
        self._word = (self._word or "") + token[kind or 0]
        return True

    def end(self) -> Commands | None:
        """Return the commands, if the line may end here."""
        if not self._end_word():
            return None
        if self._words:
            self._close_command()
        return tuple(self._commands) if self._commands and not self._needs_command else None

    def _end_word(self) -> bool:
        word, self._word = self._word, None
        if word is None:
            return True
        if not self._words and self._is_open and word in _RESERVED:
            return False
        self._words.append(word)
        return True

    def _end_command(self, operator: str) -> bool:
        if not self._words:
            # An empty line is nothing; any other operator needs a command in front of it.
            return operator == "\n" and not self._needs_command
        self._close_command()
        self._needs_command = operator not in (";", "\n")
        return True

    def _close_command(self) -> None:
        self._commands.append(tuple(self._words))
        self._words = []
        self._needs_command = False
