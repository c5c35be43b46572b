"""Bytes <-> values, within limits.

Reading is strict where the JSON library is lenient: it refuses an object that holds
a key twice, and a message that is nested too deep or holds too many values, before
any other code sees it. It then converts parameters to the method's type, base64
fields included, in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Struct

from paddock.errors import InvalidParams, MalformedMessage
from paddock.excerpt import excerpt
from paddock.protocol.late_base64 import LateBase64
from paddock.protocol.path import HostPath, parse_path
from paddock.protocol.strict_base64 import decode_base64
from paddock.protocol.structure import NoParams, Params
from paddock.protocol.value_count import count_strings

P = TypeVar("P", bound=Params)

MIN_BYTES_PER_VALUE = 2
"""The densest JSON, `[1,1,…]` or `[[…]]`, spends two bytes on a value: shorter messages need no count."""


class CodecLimits(Struct, frozen=True):
    """What a single message may hold."""

    max_values: int = 65_536
    max_depth: int = 127
    max_text_bytes: int = 8 * 1024 * 1024
    """Longer messages must consist mostly of base64 data; see `large_message`. Reading this much takes up
    to 50 ms."""


_decoder = msgspec.json.Decoder()


def read_json(message: bytes, limits: CodecLimits) -> Any:
    """Read a message as JSON. Raises MalformedMessage, also for duplicate keys and exceeded limits."""
    strings = _strings_in(message, limits)
    try:
        value = _decoder.decode(message)
        found = _strings_of(value, limits.max_depth)
    except RecursionError:
        raise MalformedMessage(f"the message is nested deeper than {limits.max_depth} levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise MalformedMessage(str(error)) from error
    # A key that the decoder dropped as a duplicate leaves a string over.
    if found != strings:
        _refuse_duplicate_keys(message)
    return value


def _strings_in(message: bytes, limits: CodecLimits) -> int:
    """Count the strings, keys included, before objects are made. Raises MalformedMessage for too many."""
    if len(message) < limits.max_values * MIN_BYTES_PER_VALUE and b"\\" not in message:
        # Every string of a document without escapes stands between two quotes.
        return message.count(b'"') // 2
    strings = count_strings(message, limits.max_values)
    if strings is None:
        raise MalformedMessage(f"the message exceeds the limit of {limits.max_values} JSON values")
    return strings


def _strings_of(value: Any, depth_left: int) -> int:
    """Count the strings of a decoded document, keys included. Raises RecursionError when it is too deep."""
    kind = type(value)
    if kind is str:
        return 1
    if kind is dict:
        strings = len(value)
        children = value.values()
    elif kind is list:
        strings = 0
        children = value
    else:
        return 0
    if depth_left <= 0:
        raise RecursionError
    for child in children:
        kind = type(child)
        if kind is str:
            strings += 1
        elif (kind is dict or kind is list) and (child or depth_left == 1):
            # An empty object or array matters only where it is too deep, and there may be very many.
            strings += _strings_of(child, depth_left - 1)
    return strings


def _refuse_duplicate_keys(message: bytes) -> None:
    def check(pairs: list[tuple[str, Any]]) -> None:
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise MalformedMessage(f"duplicate JSON object key {excerpt(key)!r}; each key may occur once")
            seen.add(key)

    import json

    json.loads(message, object_pairs_hook=check)


NO_PARAMS = NoParams()
"""The only value of its type."""


def convert_params(value: Any, kind: type[P]) -> P:
    """Check `value`, as read from a message, against a parameter type.

    Absent parameters are null. A positional array must give every field of the
    reference protocol, in order. Raises InvalidParams with a text that explains the fault.
    """
    if type(value) is not dict:
        if value is None and kind is NoParams:
            return cast("P", NO_PARAMS)
        if isinstance(value, list) and not issubclass(kind, NoParams):
            value = _named(value, kind)
    if type(value) is dict and (fields := base64_fields(kind)):
        value = _decode_base64(value, fields)
    try:
        return msgspec.convert(value, kind, dec_hook=from_wire)
    except msgspec.ValidationError as error:
        raise InvalidParams(_readable(str(error))) from error


def convert_answer(value: Any, kind: type[P]) -> P:
    """Check a client's answer against the type of the answer. Raises InvalidParams."""
    try:
        return msgspec.convert(value, kind, dec_hook=from_wire)
    except msgspec.ValidationError as error:
        raise InvalidParams(_readable(str(error), "result")) from error


class Base64Field(NamedTuple):
    """A field that holds base64."""

    name: str
    is_late: bool
    """Whether to check it only on use; see `late_base64`."""


@cache
def base64_fields(kind: type[msgspec.Struct]) -> Mapping[str, Base64Field]:
    """Return the fields that hold base64 by their wire names."""
    return {
        field.encode_name: Base64Field(field.name, field.type is LateBase64)
        for field in msgspec.structs.fields(kind)
        if field.type in (bytes, bytes | None, LateBase64)
    }


def _decode_base64(value: dict[str, Any], fields: Mapping[str, Base64Field]) -> dict[str, Any]:
    for name, field in fields.items():
        encoded = value.get(name)
        if isinstance(encoded, str) and not field.is_late:
            encoded = encoded.encode()
        if isinstance(encoded, bytes | memoryview):
            try:
                value = value | {name: decode_base64(encoded)}
            except ValueError as error:
                if not field.is_late:
                    raise InvalidParams(f"params.{name}: {error}") from error
                # Don't keep the error itself: it holds the frames of this call, and with them the message.
                value = value | {name: ValueError(str(error))}
    return value


_LOCATED = r"(?s)(.*) - at `\$\.?(.*)`"


def _readable(problem: str, whole: str = "params") -> str:
    """Return the library's words with the place of the problem in front, as the caller wrote it."""
    located = re.fullmatch(_LOCATED, problem)
    position, problem = (f"{whole}.{located[2]}", located[1]) if located else (whole, problem)
    return f"{position}: {problem[:1].lower()}{problem[1:]}"


def _named(values: list[Any], kind: type[Params]) -> dict[str, Any]:
    names = [
        wire_name
        for name, wire_name in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
        if name not in kind.EXTENSIONS
    ]
    if len(values) != len(names):
        raise InvalidParams(
            f"an array of {len(values)} was given for {len(names)} positional parameters ({', '.join(names)})"
        )
    return dict(zip(names, values, strict=True))


def from_wire(kind: type, value: Any) -> Any:
    """Convert a field whose type msgspec does not know. Raises ValueError or TypeError, as hooks do."""
    if kind is HostPath and type(value) is str:
        return parse_path(value)
    if kind is LateBase64 and isinstance(value, str | bytes | ValueError):
        return LateBase64(value)
    if kind is not HostPath and kind is not LateBase64:
        raise TypeError(f"{kind.__name__} has no wire form")
    raise TypeError(f"expected `str`, got `{'null' if value is None else type(value).__name__}`")


def _to_wire(value: Any) -> Any:
    if isinstance(value, HostPath):
        return str(value)
    if isinstance(value, LateBase64):
        return value.text
    raise TypeError(f"{type(value).__name__} has no wire form")


write_json: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=_to_wire).encode
"""Return the bytes of a message. Every string must be encodable as UTF-8."""
