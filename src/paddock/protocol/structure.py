"""Base types of everything that crosses the wire.

Python names are snake_case and wire names camelCase; the mapping is declared
here, once. Requests ignore fields they do not know, because peers differ in
version; a type that grants access derives from `model.profile.Grant`, which refuses them.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

Unsigned = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A count, an offset or a time; the wire has no negative ones."""

MAX_UNSIGNED_64 = 2**64 - 1

Unsigned64 = Annotated[int, Meta(ge=0)]
"""The same, up to MAX_UNSIGNED_64: msgspec can't express that bound, so code that uses the type checks it."""


class Params(Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters of a method."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset()
    """Fields that the reference protocol does not have; they can't be given by position."""
    HAS_CHUNK: ClassVar[bool] = False
    """Whether its field `chunk` may hold so many bytes that they are written as in `bulk`."""


class Result(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a method, the parameters of a notification, or a part of one."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset()
    """Fields that only clients which asked for extensions get."""


class NoParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Absent, null or an empty object."""


class Empty(Result, frozen=True, kw_only=True):
    """A result that says only that it worked."""
