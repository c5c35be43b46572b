"""A checked request, in the form in which all code that reads and runs requests passes it on."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from paddock.protocol.envelope import RequestId
from paddock.protocol.methods import Method
from paddock.protocol.structure import Params

P = TypeVar("P", bound=Params, covariant=True)


class Call(Struct, Generic[P], frozen=True):
    """A request with checked parameters, at the right moment."""

    id: RequestId
    method: Method
    params: P
    size_bytes: int
    bulk_bytes: int = 0
    """How many of them are base64 data, which costs hardly anything to read."""

    @property
    def text_bytes(self) -> int:
        """Return how much of the message is anything but bulk data."""
        return self.size_bytes - self.bulk_bytes

    @property
    def subject(self) -> str | None:
        """Return the process or file handle that the request is about, if it is about one."""
        return getattr(self.params, "process_id", None) or getattr(self.params, "handle_id", None)
