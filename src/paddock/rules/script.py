"""The programs in a shell script, as far as they can be known without running it. Pure.

For explanations, not for enforcement: a script shows only roughly what it would start, and
not at all what those programs start in turn. A word that depends on the moment - a variable, a
substitution, a pattern of file names - is marked as unknown, never guessed.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from paddock.errors import RulesError, RulesUnavailable
from paddock.rules.plain_line import plain_commands
from paddock.rules.program_kind import BUILTINS, SHELLS

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SCRIPT_LIMIT_BYTES: Final = 128 * 1024
"""Limit for a whole script: no longer one fits into an argument (MAX_ARG_STRLEN, execve(2))."""

NESTED_SCRIPTS: Final = 8
"""How deep to look into nested scripts, as in `bash -c 'bash -c …'`."""

PREFIXES = frozenset({"builtin", "command", "coproc", "exec", "time"})
"""Words of the shell in front of a command."""

# Packed, because people read each list as a whole.
# fmt: off
EVALUATING = frozenset({
    "-", ".", "@", "[", "alias", "and", "argparse", "autoload", "begin", "bind", "bindkey", "break",
    "bye", "compgen", "complete", "compopt", "continue", "declare", "disable", "emulate", "enable",
    "eval", "exit", "export", "fc", "fish_add_path", "float", "functions", "getln", "getopts", "hash",
    "history", "integer", "jobs", "let", "local", "logout", "mapfile", "nameref", "nocorrect", "noglob",
    "not", "or", "print", "printf", "private", "read", "readarray", "readonly", "repeat", "return",
    "sched", "set", "setenv", "setopt", "shift", "shopt", "source", "string", "test", "trap", "typeset",
    "ulimit", "unalias", "unfunction", "unhash", "unset", "unsetenv", "unsetopt", "vared", "wait",
    "zcompile", "zformat", "zle", "zmodload", "zparseopts", "zregexparse", "zstyle",
})
# fmt: on
"""Commands that some shell carries out itself, and that may change what the names of programs stand for, or
run what their arguments hold: `printf -v PATH /tmp`, `test -v 'a[$(program)]'`, and in fish `not program` and
`string match -r '(?<PATH>.+)' /tmp`. The other commands of shells, such as `cd`, `echo` and `kill`, do
neither."""


class Word(Struct, frozen=True):
    """One word of a command."""

    source: str
    """As it is written."""
    value: str | None
    """What the program receives; None if that depends on the moment."""


class ScriptCommand(Struct, frozen=True):
    """A command of a script."""

    words: tuple[Word, ...]
    line: int
    """Of the script, counted from 1; for a script in a script, the line of the outermost."""
    is_internal: bool
    """Whether the shell carries it out itself, as a builtin or a function of the script."""

    @property
    def argv(self) -> tuple[str, ...] | None:
        """Return the words to match rules against, with unknown words as they are written.

        None if the program itself is unknown.
        """
        if not self.words or self.words[0].value is None:
            return None
        return tuple(word.source if word.value is None else word.value for word in self.words)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the unknown words, as they are written."""
        return tuple(word.source for word in self.words if word.value is None)

    def __str__(self) -> str:
        return " ".join(word.source for word in self.words)


class Script(Struct, frozen=True):
    """The content of a script."""

    commands: tuple[ScriptCommand, ...]
    """In the order in which they are written."""
    error_line: int | None
    """The line of the first text that is not shell; commands after it may be missing."""
    is_plain: bool
    """Whether it consists of nothing but these commands, every word known, one after the other or in pipes,
    and certainly means the same to the shell: see `plain_line`."""


def parse_script(text: str) -> Script:
    """Parse a script of bash, or of a similar shell. Raises RulesError.

    Of a long text that somebody else chose it may take minutes: see `script_reading`.
    """
    parser = _parser()
    commands, error_line = _Reading(parser).read(text, 0, NESTED_SCRIPTS)
    plain = plain_commands(text)
    # Both readers must agree: a command that only one of them sees is not certain enough.
    is_plain = plain is not None and error_line is None and plain == _written_commands(parser, text)
    # In quotes, behind another or in some shells, such a word is the name of a program to run instead.
    # And what the shell carries out itself may do more than the words of a rule say.
    is_certain = all(words[0] not in PREFIXES | EVALUATING for words in plain or ())
    return Script(tuple(commands), error_line, is_plain and is_certain)


def _written_commands(parser: Parser, text: str) -> tuple[tuple[str | None, ...], ...]:
    """Return the words of the commands as written, without looking into nested scripts."""
    nodes = _nodes(parser.parse(_encoded(text)).root_node)
    return tuple(tuple(word.value for word in _words(node)) for node in nodes if node.type == "command")


def require_parser() -> None:
    """Raise RulesUnavailable if no script can be parsed here."""
    _parser()


def _parser() -> Parser:
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError as error:
        raise RulesUnavailable("take a script apart", "tree-sitter and tree-sitter-bash") from error
    return Parser(Language(tree_sitter_bash.language()))


class _Reading:
    """Reads a script and the scripts in it."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def read(self, text: str, lines_before: int, depth: int) -> tuple[list[ScriptCommand], int | None]:
        """Read the commands, and the line of the first error."""
        data = _encoded(text)
        if len(data) > SCRIPT_LIMIT_BYTES:
            raise RulesError(f"the script is larger than {SCRIPT_LIMIT_BYTES} bytes; look at a part of it")
        root = self._parser.parse(data).root_node
        ends = [found.start() for found in re.finditer(rb"\n", data)]
        functions: set[str] = set()
        commands: list[ScriptCommand] = []
        error_line: int | None = None
        for node in _nodes(root):
            # Not `start_point`: tree-sitter 0.26.0 gives its numbers back too often, and Python crashes soon
            # (https://github.com/tree-sitter/py-tree-sitter/issues/472).
            line = lines_before + bisect_left(ends, node.start_byte) + 1
            if (node.is_error or node.is_missing) and error_line is None:
                error_line = line
            if node.type == "function_definition" and (name := node.child_by_field_name("name")):
                functions.add(_text(name))
            if node.type == "command":
                words = _without_prefixes(_words(node))
                commands.append(ScriptCommand(words, line, _is_internal(words, functions)))
                if depth and (inner := _inner_script(words)) is not None:
                    nested, nested_error = self.read(inner, line - 1, depth - 1)
                    commands += [ScriptCommand(each.words, line, each.is_internal) for each in nested]
                    if error_line is None and nested_error is not None:
                        error_line = line
        return commands, error_line


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _nodes(root: Node) -> Iterator[Node]:
    """Yield every node in the order of the text. Without recursion: scripts nest as deep as they like."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _words(command: Node) -> tuple[Word, ...]:
    named = [*command.children_by_field_name("name"), *command.children_by_field_name("argument")]
    return tuple(Word(_text(node), _value(node)) for node in named)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "surrogateescape")


_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_EXPANDED = re.compile(r"(?<!\\)(?:\\\\)*[*?\[{}]|^~")


def _value(node: Node) -> str | None:
    """Return the value of a word; None if the text alone does not determine it."""
    text = _text(node)
    match node.type:
        case "command_name":
            return _value(node.children[0])
        case "word" | "number":
            return None if _EXPANDED.search(text) else _ESCAPED.sub(_unescaped, text)
        case "raw_string":
            return text[1:-1]
        case "string":
            if text.startswith("$") or any(child.type != "string_content" for child in node.named_children):
                return None
            return _ESCAPED_IN_QUOTES.sub(_unescaped, text[1:-1])
        case "concatenation":
            parts = [_value(child) for child in node.children]
            known = [part for part in parts if part is not None]
            return "".join(known) if len(known) == len(parts) else None
    return None


def _unescaped(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _without_prefixes(words: Sequence[Word]) -> tuple[Word, ...]:
    rest = list(words)
    while len(rest) > 1 and rest[0].value in PREFIXES and not rest[1].source.startswith("-"):
        rest.pop(0)
    return tuple(rest)


def _is_internal(words: Sequence[Word], functions: set[str]) -> bool:
    name = words[0].value if words else None
    return name in BUILTINS or name in functions or name in PREFIXES


def _inner_script(words: Sequence[Word]) -> str | None:
    """Return the script that a command hands to a shell, if all of it is known."""
    if not words or words[0].value is None:
        return None
    if words[0].value == "eval":
        values = [word.value for word in words[1:]]
        return " ".join(value for value in values if value is not None) if None not in values else None
    if words[0].value == "trap":
        # A dash restores a signal's default action, and the last word is a signal.
        rest = words[2:] if words[1:] and words[1].value == "--" else words[1:]
        return rest[0].value if len(rest) > 1 and not rest[0].source.startswith("-") else None
    if posixpath.basename(words[0].value) not in SHELLS:
        return None
    for option, script in pairwise(words[1:]):
        if option.value is None or not option.value.startswith(("-", "+")):
            return None
        if re.fullmatch(r"-[a-zA-Z]*c", option.value):
            return script.value
    return None
