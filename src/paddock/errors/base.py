"""The root of all exceptions, and the ones that stand alone: no subclasses, no siblings."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class PaddockError(Exception):
    """Base of everything Paddock raises on purpose."""

    def __reduce__(self) -> tuple[Callable[..., PaddockError], tuple[object, ...]]:
        # pickle would call `__init__` with `args`, which not every class below takes.
        return _restored, (type(self), self.args, vars(self))


def _restored(
    kind: type[PaddockError], args: tuple[object, ...], attributes: dict[str, object]
) -> PaddockError:
    """Make an error that arrives from another process."""
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(attributes)
    return error


class ConfigError(PaddockError):
    """A setting is unknown or has a bad value, or a file holds no settings. Nothing was started."""

    def __init__(self, key: str, problem: str, place: str | None = None) -> None:
        super().__init__(key, problem)
        self.key = key
        """The name of the setting; empty if the problem is the file itself, which is the `place`."""
        self.problem = problem
        self.place = place
        """The file and the line where the setting is, as `FILE:LINE`, if that is known."""

    def __str__(self) -> str:
        text = f"setting {self.key!r}: {self.problem}" if self.key else self.problem
        return text if self.place is None else f"{self.place}: {text}"


class LocalFileError(PaddockError):
    """A file of this host could not be read or written during a transfer."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(path, error)
        self.path = path
        self.error = error

    def __str__(self) -> str:
        where = (
            os.fsdecode(self.error.filename) if isinstance(self.error.filename, str | bytes) else self.path
        )
        return f"{where!r} on this host: {self.error.strerror}"


class AuditLogError(PaddockError):
    """An audit log can't be opened or read. Nothing was started."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"audit log {self.path}: {self.problem}"


class SelectionError(PaddockError):
    """A name fits no process or server, or more than one. Nothing was done."""

    def __init__(self, problem: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(problem, candidates)
        self.problem = problem
        self.candidates = candidates

    def __str__(self) -> str:
        return f"{self.problem}: {', '.join(self.candidates)}" if self.candidates else self.problem
