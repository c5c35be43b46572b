"""Patterns to search for: text, or a regular expression that every engine understands alike. Pure.

Bytes are compared, and only ASCII letters have two cases. An expression may use `.`, classes, `\\d \\w \\s
\\b` and their opposites, groups, alternatives, `^`, `$` and repetitions, lazy ones too. It may not use
constructs on which engines disagree, or with which a backtracking engine may never end: a group that holds an
alternative or a repetition may be optional, but not repeated.
"""

from __future__ import annotations

import re

MAX_PATTERN_CHARACTERS = 1000
MAX_REPEAT = 1000
MAX_NESTING = 100
"""Limit of nested groups. ripgrep refuses more than 250; Python's stack, already deep, may hold fewer."""

_ESCAPES = frozenset("dDwWsSbB")
_SPECIAL = frozenset("\\.+*?()|[]{}^$#&-~")
"""Characters that a backslash makes ordinary in every engine; before other punctuation it is dropped."""
_COUNTED = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}")


def compile_pattern(pattern: str, *, is_regex: bool, is_case_sensitive: bool) -> re.Pattern[bytes]:
    """Compile a pattern for single lines without their ends. Raises ValueError that says what is wrong."""
    flags = 0 if is_case_sensitive else re.IGNORECASE
    return re.compile(translate(pattern, is_regex=is_regex), flags)


def translate(pattern: str, *, is_regex: bool) -> bytes:
    """Translate any pattern to the common subset that all engines understand. Raises ValueError."""
    if not pattern:
        raise ValueError("it is empty")
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ValueError(f"it has more than {MAX_PATTERN_CHARACTERS} characters")
    if "\n" in pattern or "\r" in pattern or "\0" in pattern:
        raise ValueError("it contains a line break or a NUL, and the search goes line by line")
    if not is_regex:
        return b"".join(map(_ordinary, pattern))
    return _Translation(pattern).run()


def _ordinary(character: str) -> bytes:
    """Return a literal character as one unit of repetition, however many bytes it has."""
    if character in _SPECIAL:
        return b"\\" + character.encode("ascii")
    if character.isascii():
        return character.encode("ascii")
    # As bytes, because an engine that ignores case would match other cases of the character too.
    escapes = "".join(f"\\x{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))
    return f"(?:{escapes})".encode("ascii")


def _escaped(character: str, *, is_in_class: bool) -> str:
    if character in _SPECIAL or (character in _ESCAPES and not (is_in_class and character in "bB")):
        return "\\" + character
    if not character.isascii() or character.isalnum() or not character.isprintable() or not character:
        raise ValueError(f"the escape `\\{character}` is not supported{' in a class' if is_in_class else ''}")
    return character


class _Group:
    """An unclosed group, and whether repeating it could make a backtracking engine slow."""

    __slots__ = ("is_risky",)

    def __init__(self) -> None:
        self.is_risky = False


class _Translation:
    """Reads an expression of the common subset, and writes it for Python."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._written: list[bytes] = []
        self._groups = [_Group()]
        self._repeatable: _Group | bool = False
        """Whether there is something that a repetition can apply to, or the group that just ended."""

    def run(self) -> bytes:
        while self._at < len(self._pattern):
            self._one(self._pattern[self._at])
        if len(self._groups) > 1:
            raise ValueError("a group is not closed")
        return b"".join(self._written)

    def _one(self, character: str) -> None:
        match character:
            case "(":
                self._open()
            case ")":
                self._close()
            case "|":
                self._groups[-1].is_risky = True
                self._emit("|", is_repeatable=False)
            case "^" | "$":
                self._emit(character, is_repeatable=False)
            case "." | "]" | "}":
                self._emit("." if character == "." else "\\" + character)
            case "[":
                self._class()
            case "\\":
                self._emit(self._escape(), length=2)
            case "*" | "+" | "?" | "{":
                self._repeat()
            case _:
                self._written.append(_ordinary(character))
                self._at += 1
                self._repeatable = True

    def _emit(self, text: str, *, length: int = 1, is_repeatable: bool = True) -> None:
        self._written.append(text.encode("ascii"))
        self._at += length
        self._repeatable = is_repeatable

    def _open(self) -> None:
        is_plain = not self._pattern.startswith("(?", self._at)
        if not is_plain and not self._pattern.startswith("(?:", self._at):
            raise ValueError("groups begin with `(` or `(?:`; others are not supported")
        if len(self._groups) > MAX_NESTING:
            raise ValueError(f"its groups are nested deeper than {MAX_NESTING} levels")
        self._groups.append(_Group())
        self._emit("(?:", length=1 if is_plain else 3, is_repeatable=False)

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise ValueError("a `)` has no matching `(`")
        group = self._groups.pop()
        self._groups[-1].is_risky |= group.is_risky
        self._emit(")")
        self._repeatable = group

    def _escape(self) -> str:
        escaped = self._pattern[self._at + 1 : self._at + 2]
        return _escaped(escaped, is_in_class=False)

    def _class(self) -> None:
        end = self._at + 1
        negated = self._pattern.startswith("^", end)
        end += negated
        body = ""
        while end < len(self._pattern) and self._pattern[end] != "]":
            character = self._pattern[end]
            if character == "\\":
                escaped = self._pattern[end + 1 : end + 2]
                body += _escaped(escaped, is_in_class=True)
                end += 2
                continue
            if not character.isascii() or character in "[&~" or self._pattern.startswith("--", end):
                raise ValueError(f"{character!r} is not supported in a class; if you mean it, escape it")
            body += character
            end += 1
        if end >= len(self._pattern) or not body:
            raise ValueError("a class is empty or not closed; write `\\]` for a bracket in it")
        self._written.append(f"[{'^' if negated else ''}{body}]".encode("ascii"))
        self._at = end + 1
        self._repeatable = True

    def _repeat(self) -> None:
        if self._repeatable is False:
            raise ValueError("a repetition has nothing to repeat; write `\\*` if you mean the character")
        counted = _COUNTED.match(self._pattern, self._at)
        text = self._pattern[self._at]
        if text == "{":
            if counted is None:
                raise ValueError("`{` begins no repetition like `{2}`, `{2,}` or `{2,5}`; write `\\{`")
            if max(int(number) for number in (counted[1], counted[3] or "0")) > MAX_REPEAT:
                raise ValueError(f"a repetition of more than {MAX_REPEAT} is not supported")
            text = counted[0]
        if isinstance(self._repeatable, _Group) and self._repeatable.is_risky and text != "?":
            raise ValueError(
                "a group with an alternative or a repetition in it can't be repeated; write it out"
            )
        is_lazy = self._pattern.startswith("?", self._at + len(text))
        self._groups[-1].is_risky = True
        self._emit(text + ("?" if is_lazy else ""), length=len(text) + is_lazy, is_repeatable=False)
