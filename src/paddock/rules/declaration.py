"""The functions of the rules language: from the arguments of a call to rules. Pure.

Knows what `prefix_rule`, `host_executable` and `network_rule` accept, and how they reject
everything else. Arguments arrive as `Value`s, which keep the types of the language: a tuple is
not a list there. Every complaint is an InvalidRule with the text for the author of the
file; this module does not know the position in the file.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from paddock.errors import InvalidRule
from paddock.model.decision import Action, Origin
from paddock.rules.network import PROTOCOLS, NetworkProtocol, NetworkRule, parse_host
from paddock.rules.policy import Policy, absolute_path
from paddock.rules.rule import Alternatives, Pattern, PrefixRule, is_flag


class Value(Struct, frozen=True):
    """A value of the language: its type, and a string, a tuple of values, or else its notation."""

    type: str
    content: Any

    def notation(self) -> str:
        """Write the value in the notation of the language."""
        match self.type:
            case "string":
                return json.dumps(self.content, ensure_ascii=False)
            case "list":
                return f"[{', '.join(item.notation() for item in self.content)}]"
            case "tuple":
                items = ", ".join(item.notation() for item in self.content)
                return f"({items},)" if len(self.content) == 1 else f"({items})"
        return str(self.content)


class Call(Struct, frozen=True):
    """A call of one of the functions."""

    function: str
    origin: Origin
    positional: tuple[Value, ...] = ()
    named: Mapping[str, Value] = field(default_factory=dict)


class Example(Struct, frozen=True):
    """A command that a rule must fit, or must not."""

    command: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.command)


class Declaration(Struct, frozen=True):
    """What one call declares. The evaluator checks the examples once it knows the whole file."""

    rules: tuple[PrefixRule, ...] = ()
    matching: tuple[Example, ...] = ()
    not_matching: tuple[Example, ...] = ()
    host_executables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    network_rules: tuple[NetworkRule, ...] = ()


class _Parameter(Struct, frozen=True):
    name: str
    type: str
    is_required: bool = False
    is_positional: bool = True


PARAMETERS: Final = {
    "prefix_rule": (
        _Parameter("pattern", "list", is_required=True),
        _Parameter("decision", "string"),
        _Parameter("match", "list"),
        _Parameter("not_match", "list"),
        _Parameter("justification", "string"),
        # The peer's language lacks these. By keyword only, so that no position can ever clash with it.
        _Parameter("unless", "list", is_positional=False),
        _Parameter("flags_anywhere", "bool", is_positional=False),
    ),
    "host_executable": (
        _Parameter("name", "string", is_required=True),
        _Parameter("paths", "list", is_required=True),
    ),
    "network_rule": (
        _Parameter("host", "string", is_required=True),
        _Parameter("protocol", "string", is_required=True),
        _Parameter("decision", "string", is_required=True),
        _Parameter("justification", "string"),
    ),
}
"""The functions, with their parameters in the order of their positions."""

_TYPE_NAMES = {"string": "str"}
"""How messages name an expected type, if not by its own name."""


def declare(call: Call) -> Declaration:
    """Return what a call declares. Raises InvalidRule."""
    arguments = _bound(call)
    match call.function:
        case "prefix_rule":
            return _prefix_rule(arguments, call.origin)
        case "host_executable":
            return _host_executable(arguments)
        case "network_rule":
            return _network_rule(arguments, call.origin)
    raise ValueError(f"there is no function {call.function!r} in the language")


def check_examples(declaration: Declaration, host_executables: Mapping[str, tuple[str, ...]]) -> None:
    """Check the rules of a declaration, alone, against its examples. Raises InvalidRule."""
    policy = Policy(declaration.rules, host_executables)
    for example in declaration.not_matching:
        if matches := policy.decide(example.command).matches:
            prefix = json.dumps(list(matches[0].prefix), ensure_ascii=False)
            raise InvalidRule(f"expected example to not match rule {prefix}: {example}")
    unmatched = [
        str(example) for example in declaration.matching if not policy.decide(example.command).matches
    ]
    if unmatched:
        shown = json.dumps(unmatched, ensure_ascii=False)
        raise InvalidRule(f"expected every example to match at least one rule; unmatched examples: {shown}")


def _bound(call: Call) -> dict[str, Value]:
    """Return the arguments by the names of their parameters."""
    parameters = PARAMETERS[call.function]
    positional = [parameter.name for parameter in parameters if parameter.is_positional]
    excess = len(call.positional) - len(positional)
    if excess > 0:
        raise InvalidRule(f"Found {excess} extra positional argument(s) for call to {call.function}")
    arguments = dict(zip(positional, call.positional, strict=False))
    for name, value in call.named.items():
        if name in arguments:
            raise InvalidRule(f"Argument `{name}` occurs more than once")
        arguments[name] = value
    known = {parameter.name for parameter in parameters}
    if unknown := [f"`{name}`" for name in arguments if name not in known]:
        raise InvalidRule(f"Found {' '.join(unknown)} extra named parameter(s) for call to {call.function}")
    for parameter in parameters:
        _check_argument(call.function, parameter, arguments.get(parameter.name))
    return arguments


def _check_argument(function: str, parameter: _Parameter, value: Value | None) -> None:
    if value is None:
        if parameter.is_required:
            raise InvalidRule(f"Missing parameter `{parameter.name}` for call to `{function}`")
    elif value.type != parameter.type:
        expected = _TYPE_NAMES.get(parameter.type, parameter.type)
        raise InvalidRule(
            f"Type of parameter `{parameter.name}` doesn't match, expected `{expected}`, "
            f"actual `{value.type} (repr: {value.notation()})`"
        )


# --- prefix_rule ------------------------------------------------------------


def _prefix_rule(arguments: Mapping[str, Value], origin: Origin) -> Declaration:
    action = _action(arguments["decision"].content) if "decision" in arguments else Action.ALLOW
    justification = _justification(arguments)
    heads, *rest = _pattern(arguments["pattern"])
    unless = _exceptions(arguments["unless"]) if "unless" in arguments else ()
    has_free_flags = "flags_anywhere" in arguments and arguments["flags_anywhere"].content == "True"
    if has_free_flags:
        for pattern in ((heads, *rest), *unless):
            check_free_flags(pattern)
    rules = tuple(
        PrefixRule(((head,), *rest), action, origin, justification, unless, has_free_flags) for head in heads
    )
    return Declaration(
        rules=rules,
        matching=_examples(arguments, "match"),
        not_matching=_examples(arguments, "not_match"),
    )


def _action(name: str) -> Action:
    try:
        return Action(name)
    except ValueError:
        raise InvalidRule(f"invalid decision: {name}") from None


def _justification(arguments: Mapping[str, Value]) -> str | None:
    value = arguments.get("justification")
    if value is None:
        return None
    text: str = value.content
    if not text.strip():
        raise InvalidRule("invalid rule: justification cannot be empty")
    return text


def _pattern(value: Value) -> Pattern:
    if not value.content:
        raise InvalidRule("invalid pattern element: pattern cannot be empty")
    return tuple(_position(item) for item in value.content)


def _position(value: Value) -> Alternatives:
    match value.type:
        case "string":
            return (value.content,)
        case "list":
            return _alternatives(value.content)
    raise InvalidRule(
        f"invalid pattern element: pattern element must be a string or list of strings (got {value.type})"
    )


def _alternatives(items: Sequence[Value]) -> Alternatives:
    if not items:
        raise InvalidRule("invalid pattern element: pattern alternatives cannot be empty")
    for item in items:
        if item.type != "string":
            raise InvalidRule(
                f"invalid pattern element: pattern alternative must be a string (got {item.type})"
            )
    return tuple(item.content for item in items)


def _exceptions(value: Value) -> tuple[Pattern, ...]:
    for item in value.content:
        if item.type != "list":
            raise InvalidRule(f"invalid rule: unless must hold patterns, which are lists (got {item.type})")
    return tuple(_pattern(item) for item in value.content)


def check_free_flags(pattern: Pattern) -> None:
    """Raise InvalidRule for a position that holds flags and words, though flags may stand anywhere."""
    for alternatives in pattern[1:]:
        if len({is_flag(word) for word in alternatives}) > 1:
            shown = json.dumps(list(alternatives), ensure_ascii=False)
            raise InvalidRule(
                "invalid rule: with flags_anywhere the alternatives of a place must be all flags or all "
                f"words (got {shown})"
            )


_WORD_OR_COMMENT = re.compile(
    r"""(?P<comment>\#[^\n]*) | (?: \\. | '[^']*' | "(?:\\.|[^"\\])*" | [^\s'"\\] )+ | .""",
    re.VERBOSE | re.DOTALL,
)


def _examples(arguments: Mapping[str, Value], name: str) -> tuple[Example, ...]:
    return tuple(_example(item) for item in arguments[name].content) if name in arguments else ()


def _example(value: Value) -> Example:
    match value.type:
        case "string":
            return Example(_split(value.content))
        case "list":
            if not value.content:
                raise InvalidRule("invalid example: example cannot be an empty list")
            for item in value.content:
                if item.type != "string":
                    raise InvalidRule(f"invalid example: example tokens must be strings (got {item.type})")
            return Example(tuple(item.content for item in value.content))
    raise InvalidRule(f"invalid example: example must be a string or list of strings (got {value.type})")


def _split(text: str) -> tuple[str, ...]:
    """Return the words of a command line. Unlike in `shlex`, a comment can't begin inside a word."""
    bare = "".join(found[0] for found in _WORD_OR_COMMENT.finditer(text) if found["comment"] is None)
    try:
        words = shlex.split(bare)
    except ValueError:
        raise InvalidRule("invalid example: example string has invalid shell syntax") from None
    if not words:
        raise InvalidRule("invalid example: example cannot be an empty string")
    return tuple(words)


# --- host_executable and network_rule ---------------------------------------


def _host_executable(arguments: Mapping[str, Value]) -> Declaration:
    name: str = arguments["name"].content
    if not name:
        raise InvalidRule("invalid rule: host_executable name cannot be empty")
    if "/" in name or name in (".", ".."):
        raise InvalidRule(f"invalid rule: host_executable name must be a bare executable name (got {name})")
    paths = dict.fromkeys(_executable_path(name, item) for item in arguments["paths"].content)
    return Declaration(host_executables={name: tuple(paths)})


def _executable_path(name: str, value: Value) -> str:
    if value.type != "string":
        raise InvalidRule(f"invalid rule: host_executable paths must be strings (got {value.type})")
    written: str = value.content
    if not written.startswith("/"):
        raise InvalidRule(f"invalid rule: host_executable paths must be absolute (got {written})")
    path = absolute_path(written, "/")
    if posixpath.basename(path) != name:
        raise InvalidRule(f"invalid rule: host_executable path `{written}` must have basename `{name}`")
    return path


def _network_rule(arguments: Mapping[str, Value], origin: Origin) -> Declaration:
    protocol = PROTOCOLS.get(arguments["protocol"].content)
    if protocol is None:
        known = ", ".join(NetworkProtocol)
        raise InvalidRule(
            f"invalid rule: network_rule protocol must be one of {known} "
            f"(got {arguments['protocol'].content})"
        )
    decision: str = arguments["decision"].content
    action = Action.FORBIDDEN if decision == "deny" else _action(decision)
    host = parse_host(arguments["host"].content)
    rule = NetworkRule(host, protocol, action, origin, _justification(arguments))
    return Declaration(network_rules=(rule,))
