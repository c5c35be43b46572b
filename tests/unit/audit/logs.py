"""Audit logs for the tests: written, left by a killed server, and on a disk that is full."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock.audit.event import Event, Exit, Start
from paddock.audit.log import AuditLog, Stamped

TIME_NS = 1_772_600_767_890_123_456
SEGMENT_BYTES = 2000


def a_start(process: str = "p", *words: str) -> Start:
    return Start(session="0f3a9c2e", process=process, argv=("ls", *words), cwd="/", env={"PATH": "/bin"})


def an_exit(process: str = "p", exit_code: int = 0) -> Exit:
    return Exit(session="0f3a9c2e", process=process, pid=1, exit_code=exit_code)


def stamped(*events: Event) -> list[Stamped]:
    return [Stamped(TIME_NS, event) for event in events]


def open_log(directory: Path, *, segment_bytes: int = SEGMENT_BYTES, is_synced: bool = False) -> AuditLog:
    return AuditLog.open(directory, segment_limit_bytes=segment_bytes, is_synced=is_synced, version="1.2.3")


def write_runs(log: AuditLog, count: int) -> None:
    for number in range(count):
        outcome = log.append(stamped(a_start(f"p{number}"), an_exit(f"p{number}")))
        assert outcome.error is None


def kill(log: AuditLog) -> None:
    """Let go of the files as the kernel does when the server is killed."""
    log.release()


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("audit-*.jsonl"))


@contextmanager
def full_disk(log_directory: Path, room_bytes: int) -> Iterator[None]:
    """The last segment can grow by so much for the time of the block, and no more.

    A limit on the size of files fails in the middle of a write as a full disk does (EFBIG, in place
    of ENOSPC), and needs no privilege.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (segments(log_directory)[-1].stat().st_size + room_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def restore(directory: Path, files: dict[str, bytes]) -> None:
    """Make the directory hold these files and no others."""
    for path in directory.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        path = directory / name
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
            os.chmod(path, 0o600)
