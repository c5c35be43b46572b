"""Comparing what came over the wire with what was recorded. Pure.

A pattern is a JSON value. It fits an equal value, except where it holds one of
the placeholders below, and an object must have exactly the pattern's keys unless
the pattern says `"...": true`. Types count: 1 is neither true nor 1.0.

    <any> <int> <str>    anything, an integer (no boolean), a string
    <uuid>               a lower-case UUID
    <base64:TEXT>        the base64 form of TEXT in UTF-8
    <regex:PATTERN>      a string that the whole pattern fits
    <text-regex:PATTERN> the base64 form of such a string in UTF-8

An array of `<unordered>` and another array fits the same elements in any order.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

MORE_KEYS = "..."
UNORDERED = "<unordered>"
SHOWN_CHARACTERS = 300

_PLACEHOLDER = re.compile(r"<([\w-]+)(?::(.*))?>", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Mismatch(Exception):
    """The server did something else than was recorded. The text says where and what."""


def check(pattern: Any, value: Any, place: str = "$") -> None:
    """Raise Mismatch, which names the place inside the value, unless the value fits.

    Raises ValueError for a placeholder that does not exist.
    """
    if isinstance(pattern, str) and (placeholder := _PLACEHOLDER.fullmatch(pattern)):
        fits = _fits_placeholder(placeholder[1], placeholder[2] or "", value)
    elif isinstance(pattern, dict):
        _check_object(pattern, value, place)
        return
    elif isinstance(pattern, list):
        _check_array(pattern, value, place)
        return
    else:
        fits = type(pattern) is type(value) and pattern == value
    if not fits:
        raise Mismatch(f"{place}: expected {shown(pattern)}, got {shown(value)}")


def check_streams(patterns: Mapping[str, str], streams: Mapping[str, bytes]) -> None:
    """Check the whole output of each stream, in its base64 form; a stream without pattern must be empty."""
    for name in sorted({*patterns, *streams}):
        data = base64.b64encode(streams.get(name, b"")).decode()
        check(patterns.get(name, ""), data, f"output of {name}")


def fill(value: Any, variables: Mapping[str, str]) -> Any:
    """The value with `${NAME}` replaced in each of its strings. Raises KeyError for an unknown name."""
    match value:
        case str():
            return _VARIABLE.sub(lambda found: variables[found[1]], value)
        case list():
            return [fill(item, variables) for item in value]
        case dict():
            return {key: fill(item, variables) for key, item in value.items()}
        case _:
            return value


def shown(value: Any) -> str:
    """The value as JSON, cut to a length that a failure report can bear."""
    text = json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


def _fits_placeholder(kind: str, argument: str, value: Any) -> bool:
    match kind:
        case "any":
            return True
        case "int":
            return type(value) is int
        case "str":
            return isinstance(value, str)
        case "uuid":
            return isinstance(value, str) and _UUID.fullmatch(value) is not None
        case "base64":
            return bool(value == base64.b64encode(argument.encode()).decode())
        case "regex":
            return isinstance(value, str) and re.fullmatch(argument, value, re.DOTALL) is not None
        case "text-regex":
            text = base64.b64decode(value).decode("utf-8", "replace")
            return re.fullmatch(argument, text, re.DOTALL) is not None
        case _:
            raise ValueError(f"there is no placeholder <{kind}>")


def _check_object(pattern: dict[str, Any], value: Any, place: str) -> None:
    if not isinstance(value, dict):
        raise Mismatch(f"{place}: expected an object, got {shown(value)}")
    wanted = {key: item for key, item in pattern.items() if key != MORE_KEYS}
    if missing := wanted.keys() - value.keys():
        raise Mismatch(f"{place}: {sorted(missing)} missing in {shown(value)}")
    surplus = value.keys() - wanted.keys()
    if surplus and MORE_KEYS not in pattern:
        raise Mismatch(f"{place}: {sorted(surplus)} not expected in {shown(value)}")
    for key, item in wanted.items():
        check(item, value[key], f"{place}.{key}")


def _check_array(pattern: list[Any], value: Any, place: str) -> None:
    if len(pattern) == 2 and pattern[0] == UNORDERED:
        _check_unordered(pattern[1], value, place)
        return
    if not isinstance(value, list) or len(value) != len(pattern):
        raise Mismatch(f"{place}: expected {shown(pattern)}, got {shown(value)}")
    for index, (wanted, item) in enumerate(zip(pattern, value, strict=True)):
        check(wanted, item, f"{place}[{index}]")


def _check_unordered(pattern: list[Any], value: Any, place: str) -> None:
    if not isinstance(value, list):
        raise Mismatch(f"{place}: expected an array, got {shown(value)}")
    remaining = list(value)
    for wanted in pattern:
        places = [index for index, item in enumerate(remaining) if _fits(wanted, item)]
        if not places:
            raise Mismatch(f"{place}: {shown(wanted)} missing in {shown(value)}")
        del remaining[places[0]]
    if remaining:
        raise Mismatch(f"{place}: {shown(remaining)} not expected")


def _fits(pattern: Any, value: Any) -> bool:
    try:
        check(pattern, value)
    except Mismatch:
        return False
    return True
