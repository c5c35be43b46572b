"""Types as a reader of JSON or TOML knows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec.inspect as inspect
from msgspec import to_builtins

from paddock.protocol.late_base64 import LateBase64
from paddock.protocol.path import HostPath
from scripts.reference.markdown import code

KIB, MIB = 1 << 10, 1 << 20

Link = Callable[[type], str]
"""How a structure that is described elsewhere is referred to."""


def describe(kind: inspect.Type, link: Link) -> str:
    """The type in words, without its bounds."""
    match kind:
        case inspect.UnionType(types=types):
            return " or ".join(describe(member, link) for member in types)
        case inspect.StructType(cls=cls):
            return link(cls)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return f"array of {describe(item, link)}"
        case inspect.DictType(value_type=value):
            return f"object of {describe(value, link)}"
        case inspect.LiteralType(values=values):
            return " or ".join(code(json.dumps(value)) for value in values)
        case inspect.EnumType(cls=cls):
            return " or ".join(code(json.dumps(member.value)) for member in cls)
        case inspect.CustomType(cls=cls):
            return {HostPath: "path", LateBase64: "base64"}.get(cls, "anything")
    return _PLAIN[type(kind)]


_PLAIN: dict[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.BytesType: "base64",
    inspect.UUIDType: "UUID",
    inspect.NoneType: "null",
    inspect.AnyType: "anything",
}


def bounds(name: str, kind: inspect.Type) -> str:
    """The least and the greatest number that is allowed; empty where there are none."""
    if isinstance(kind, inspect.UnionType):
        return ", ".join(filter(None, (bounds(name, member) for member in kind.types)))
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return bounds(name, kind.item_type)
    if not isinstance(kind, inspect.IntType | inspect.FloatType):
        return ""
    # 2^63 - 1 is what a 64-bit integer holds: no limit of ours.
    most = None if kind.le is None or kind.le >= 2**63 - 1 else f"at most {number(name, kind.le)}"
    least = f"at least {number(name, kind.ge)}" if kind.ge is not None else None
    above = f"above {number(name, kind.gt)}" if kind.gt is not None else None
    return ", ".join(filter(None, (least, above, most)))


def number(name: str, value: float) -> str:
    """A number; one that is called a size also in a unit for people."""
    is_size = "bytes" in name.lower() and isinstance(value, int) and value >= KIB and value % KIB == 0
    if not is_size:
        return str(value)
    return f"{value} ({value // MIB} MiB)" if value % MIB == 0 else f"{value} ({value // KIB} KiB)"


def literal(name: str, value: Any) -> str:
    """A default as it is written in JSON or TOML."""
    if isinstance(value, bool | str):
        return code(json.dumps(value))
    if isinstance(value, int | float):
        return number(name, value)
    return code(json.dumps(to_builtins(value)))
