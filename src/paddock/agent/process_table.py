"""The processes that a model has left running, by the small numbers it knows them by. Pure.

At most `PROCESS_LIMIT` are kept. When one more comes, the one that was used longest ago makes room: one that
has ended if there is one, else one that runs, which the caller has to end. The last few used are never
chosen, nor one that somebody is talking to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from msgspec import Struct

PROCESS_LIMIT: Final = 64
RECENT_COUNT: Final = 8
"""The last used, which are kept in any case."""

FIRST_ID: Final = 1000
LAST_ID: Final = 99_999

T = TypeVar("T")


class Entry(Struct, Generic[T]):
    """A process that a model may come back to."""

    id: int
    process: T
    is_busy: Callable[[], bool]
    """Whether a call about it is under way."""
    has_ended: Callable[[], bool]


class ProcessTable(Generic[T]):
    """Numbers processes and remembers them in the order of their use. `choose` gives a number to try."""

    def __init__(self, choose: Callable[[], int]) -> None:
        self._choose = choose
        self._reserved: set[int] = set()
        self._entries: dict[int, Entry[T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry[T]]:
        return iter(list(self._entries.values()))

    def __contains__(self, number: int) -> bool:
        return number in self._entries

    def reserve(self) -> int:
        """Return a number that nothing else has. Give it back with `release` if nothing comes of it."""
        while (number := self._choose()) in self._reserved:
            pass
        self._reserved.add(number)
        return number

    def release(self, number: int) -> None:
        """Free a number for use, and forget its process, if it has one."""
        self._entries.pop(number, None)
        self._reserved.discard(number)

    def drop(self, number: int, process: T) -> bool:
        """Forget a process, whose number stays reserved; return whether the number was its own."""
        entry = self._entries.get(number)
        if entry is None or entry.process is not process:
            return False
        del self._entries[number]
        return True

    def add(self, entry: Entry[T]) -> T | None:
        """Remember a process under its reserved number. Return the one that was forgotten for it."""
        victim = self._victim() if len(self._entries) >= PROCESS_LIMIT else None
        if victim is not None:
            self.release(victim.id)
        self._entries[entry.id] = entry
        return None if victim is None else victim.process

    def use(self, number: float) -> Entry[T] | None:
        """Return the process of a number, now the last one used; None if there is none."""
        if not float(number).is_integer() or int(number) not in self._entries:
            return None
        entry = self._entries.pop(int(number))
        self._entries[entry.id] = entry
        return entry

    def _victim(self) -> Entry[T] | None:
        old = list(self._entries.values())[: max(0, len(self._entries) - RECENT_COUNT)]
        ended = [entry for entry in old if entry.has_ended()]
        # One that has ended will make room soon, though it is busy now.
        candidates = ended or old
        return next((entry for entry in candidates if not entry.is_busy()), None)
