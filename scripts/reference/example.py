"""An example of a request: what crosses the wire when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Varies:
    """A value that is another one each time, such as an id or a moment."""

    shown: Any


@dataclass(frozen=True, slots=True)
class Example:
    """A request, its answer, and the notifications that follow it."""

    method: str
    title: str
    params: Message | None
    result: Any = None
    error: Message | None = None
    events: tuple[tuple[str, Message], ...] = ()
    is_operators: bool = False
    """Whether it is asked on the control socket."""

    def messages(self) -> Iterator[Message]:
        """What crosses the wire, as it is shown."""
        request = {"id": 1, "method": self.method, "params": self.params}
        yield request if self.params is not None else {"id": 1, "method": self.method}
        yield (
            {"id": 1, "error": self.error}
            if self.error is not None
            else {"id": 1, "result": shown(self.result)}
        )
        for method, params in self.events:
            yield {"method": method, "params": shown(params)}


def shown(value: Any) -> Any:
    """The value with what varies filled in."""
    match value:
        case Varies(shown=one):
            return one
        case dict():
            return {name: shown(member) for name, member in value.items()}
        case list():
            return [shown(member) for member in value]
    return value
