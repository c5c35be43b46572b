"""Finds each bubblewrap that may be used: on PATH, and in the package.

A program in a directory where commands work now is never a candidate, nor is one that others could have put
there (`own_program`). A bundled bubblewrap must match the digest recorded when it was built. Paddock executes
each through the descriptor that it examined, so that nobody can replace it in between. `probe` decides
whether a candidate is good enough.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from paddock import own_program
from paddock.errors import SandboxUnavailable
from paddock.native_program import native_path
from paddock.own_program import Program
from paddock.shortage import raise_if_short

PROGRAM: Final = "bwrap"
BUNDLED: Final = native_path(PROGRAM)
DIGEST_SUFFIX: Final = ".sha256"
DISTRIBUTION: Final = "paddock-exec"
"""The name of the installed package. `paddock` in the index is another project."""


class Candidate(Struct, frozen=True):
    """A program that may be usable."""

    path: str
    """Absolute, without symbolic links."""
    inode: int
    modified_ns: int
    is_setuid: bool
    fd: int
    """The caller owns the descriptor of a bundled program; the others stay open for good."""
    is_bundled: bool = False

    @property
    def command(self) -> str:
        """Return the path to execute. The child must inherit the descriptor."""
        return f"/proc/self/fd/{self.fd}"


def outside(programs: Iterable[Program], workspaces: Iterable[str]) -> Iterator[Candidate]:
    """Yield the programs that lie outside the workspaces."""
    yield from map(_candidate, own_program.outside(programs, workspaces))


def bundled(path: str = BUNDLED, *, is_development: bool | None = None) -> Candidate | None:
    """Return the bubblewrap of the package, opened and verified; None if the package has none.

    Raises SandboxUnavailable when it is not the one that was built. `is_development` says whether a missing
    digest is forgiven; by default it is if paddock is installed from a source tree. Raises OSError for lack
    of descriptors or memory.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise_if_short(error)
        return None
    try:
        _verify(fd, path, is_development)
        return _candidate(Program(path, fd, os.fstat(fd)), is_bundled=True)
    except BaseException:
        os.close(fd)
        raise


def _verify(fd: int, path: str, is_development: bool | None) -> None:
    import hashlib

    digest_path = f"{path}{DIGEST_SUFFIX}"
    try:
        with open(digest_path, encoding="ascii") as file:
            expected = file.read().split()[:1]
    except (OSError, UnicodeDecodeError):
        expected = []
    if not expected:
        if _is_editable() if is_development is None else is_development:
            return
        raise SandboxUnavailable(
            f"the bundled {path} has no digest in {os.path.basename(digest_path)}", "install paddock again"
        )
    with os.fdopen(os.dup(fd), "rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != expected[0]:
        raise SandboxUnavailable(
            f"the bundled {path} is not the one that was built: its SHA-256 is {actual}, not {expected[0]}",
            "install paddock again",
        )


def _is_editable() -> bool:
    """Return whether paddock is installed from a source tree, according to the installer's record."""
    from importlib import metadata

    try:
        origin = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        record = msgspec.json.decode(origin or "{}", type=dict[str, object])
    except (metadata.PackageNotFoundError, msgspec.DecodeError):
        return False
    details = record.get("dir_info")
    return isinstance(details, dict) and details.get("editable") is True


def _candidate(program: Program, *, is_bundled: bool = False) -> Candidate:
    status = program.status
    is_setuid = bool(status.st_mode & stat.S_ISUID)
    return Candidate(program.path, status.st_ino, status.st_mtime_ns, is_setuid, program.fd, is_bundled)
