"""docs/reference/config.md: every setting."""

from __future__ import annotations

import tomllib

import msgspec.inspect as inspect
from msgspec import NODEFAULT

from paddock.config import Settings, make_settings
from scripts.reference.docstring import field_meanings
from scripts.reference.markdown import code, document, fence, table
from scripts.reference.wire_type import bounds, describe, literal

INTRODUCTION = """\
`paddock serve --config FILE` reads settings from a TOML file. Some have a flag too, which wins (see
[cli.md](cli.md)). A program that embeds a server passes them to `paddock.Settings`. Every setting has a
default. If a name is unknown or a value is bad, the server does not start; the error names the setting."""

EXAMPLE = """\
listen = "ws://127.0.0.1:4100"
session_ttl_s = 300
retained_output_bytes_per_process = 4194304
"""


def page() -> str:
    """The whole page."""
    make_settings(tomllib.loads(EXAMPLE))
    return document(
        "Settings",
        INTRODUCTION,
        fence(EXAMPLE, "toml"),
        table(("name", "type", "default", "bounds", "meaning"), map(_row, _fields())),
    )


def _fields() -> tuple[inspect.Field, ...]:
    info = inspect.type_info(Settings)
    assert isinstance(info, inspect.StructType)
    return info.fields


def _row(field: inspect.Field) -> tuple[str, ...]:
    kind = describe(field.type, lambda cls: cls.__name__).removesuffix(" or null")
    # A table is made anew for each value.
    value = field.default if field.default_factory is NODEFAULT else field.default_factory()
    default = "not set" if value is None else literal(field.name, value)
    return (
        code(field.name),
        kind,
        default,
        bounds(field.name, field.type),
        field_meanings(Settings)[field.name],
    )
