"""Keeps what was found out about a bubblewrap for the next process.

Asking costs two starts of the program, as much as a whole confined command. The answer holds for one file,
identified by its path, inode and change time, one user, one boot and one set of filters. Only good answers
are kept, so a repair is noticed at once. A memory file that can't be read or written counts as missing.
Whoever can write it decides which options are left out, and so how tight a sandbox is: keep it out of reach
of every command.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import msgspec

from paddock.model.host import BwrapCapabilities

FILE_NAME: Final = "bubblewrap.json"
ENTRIES_LIMIT: Final = 8
"""Several bubblewraps or users of one file are rare. The oldest entry goes first."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions under which an answer holds."""

    path: str
    inode: int
    modified_ns: int
    user: int
    boot: str
    filters: str
    """The filters of system calls of the process that asked."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a working bubblewrap, and of the kernel beneath it."""

    version: str
    capabilities: BwrapCapabilities
    can_mount_proc: bool
    landlock_abi: int


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: Key
    answer: Answer


class Memory:
    """Answers by key: in this process, and in a file if a `directory` is given that no command can write."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self._file = os.path.join(directory, FILE_NAME) if directory is not None else None
        self._known: dict[Key, Answer] | None = None

    def recall(self, key: Key) -> Answer | None:
        """Return the answer, if there was one for exactly this key."""
        return self._load().get(key)

    def keep(self, key: Key, answer: Answer) -> None:
        """Remember an answer, if possible."""
        known = self._load()
        known.pop(key, None)
        known[key] = answer
        while len(known) > ENTRIES_LIMIT:
            del known[next(iter(known))]
        if self._file is not None:
            _replace(self._file, msgspec.json.encode([_Entry(key=k, answer=a) for k, a in known.items()]))

    def _load(self) -> dict[Key, Answer]:
        if self._known is None:
            self._known = _read(self._file) if self._file is not None else {}
        return self._known


def _read(file: str) -> dict[Key, Answer]:
    try:
        with open(file, "rb") as opened:
            entries = msgspec.json.decode(opened.read(), type=list[_Entry])
    except (OSError, msgspec.DecodeError):
        return {}
    return {entry.key: entry.answer for entry in entries}


def _replace(file: str, data: bytes) -> None:
    # Another process reads the old answers or the new ones, never half of them.
    unfinished = os.path.join(os.path.dirname(file), f".{FILE_NAME}.{os.getpid()}")
    with suppress(OSError):
        try:
            with open(unfinished, "wb") as opened:
                opened.write(data)
            os.replace(unfinished, file)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
