"""Where a bubblewrap may come from: PATH first, then the one that the package brings.

A program in a directory where commands work is never a candidate, for they could
have put it there; ripgrep is chosen by the same rule. A bundled bubblewrap is held
against the digest that was written when it was built, and executed through the
descriptor that was read, so that nothing can come between. Whether a candidate is
good enough is decided by `probe`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from paddock.errors import SandboxUnavailable

PROGRAM: Final = "bwrap"
BUNDLED: Final = Path(__file__).parent.parent / "native" / PROGRAM
DIGEST_SUFFIX: Final = ".sha256"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that may be usable."""

    path: str
    """Absolute, without symbolic links."""
    inode: int
    modified_ns: int
    is_setuid: bool
    fd: int | None = None
    """Set for a bundled one; owned by whoever got the candidate."""

    @property
    def command(self) -> str:
        """What to execute. With a descriptor, whoever does must let it be inherited."""
        return self.path if self.fd is None else f"/proc/self/fd/{self.fd}"


def on_path(search_path: str, workspaces: Iterable[str], program: str = PROGRAM) -> Iterator[Candidate]:
    """Every program of this name on PATH outside the workspaces, in the order of PATH, each once."""
    workspaces = [os.path.realpath(workspace) for workspace in workspaces]
    seen = set()
    for directory in search_path.split(os.pathsep):
        # A relative element, an empty one included, depends on where somebody happens to be.
        if not os.path.isabs(directory):
            continue
        path = os.path.realpath(os.path.join(directory, program))
        if path in seen or any(_is_below(path, workspace) for workspace in workspaces):
            continue
        seen.add(path)
        try:
            status = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and os.access(path, os.X_OK):
            yield _candidate(path, status)


def bundled(path: Path = BUNDLED, *, is_development: bool | None = None) -> Candidate | None:
    """The bubblewrap of the package, opened and verified; None if the package has none.

    Raises SandboxUnavailable when it is not the one that was built. `is_development` is
    whether a missing digest is forgiven; by default, whether paddock is installed
    from a source tree.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        _verify(fd, path, is_development)
        return _candidate(str(path), os.fstat(fd), fd)
    except BaseException:
        os.close(fd)
        raise


def _verify(fd: int, path: Path, is_development: bool | None) -> None:
    import hashlib

    digest_path = path.with_name(path.name + DIGEST_SUFFIX)
    try:
        expected = digest_path.read_text(encoding="ascii").split()[:1]
    except (OSError, UnicodeDecodeError):
        expected = []
    if not expected:
        if _is_editable() if is_development is None else is_development:
            return
        raise SandboxUnavailable(
            f"the bundled {path} has no digest in {digest_path.name}", "install paddock again"
        )
    with os.fdopen(os.dup(fd), "rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != expected[0]:
        raise SandboxUnavailable(
            f"the bundled {path} is not the one that was built: its SHA-256 is {actual}, not {expected[0]}",
            "install paddock again",
        )


def _is_editable() -> bool:
    """Whether paddock is installed from a source tree, by the record that the installer left."""
    from importlib import metadata

    try:
        origin = metadata.distribution("paddock").read_text("direct_url.json")
        record = msgspec.json.decode(origin or "{}", type=dict[str, object])
    except (metadata.PackageNotFoundError, msgspec.DecodeError):
        return False
    details = record.get("dir_info")
    return isinstance(details, dict) and details.get("editable") is True


def _candidate(path: str, status: os.stat_result, fd: int | None = None) -> Candidate:
    return Candidate(path, status.st_ino, status.st_mtime_ns, bool(status.st_mode & stat.S_ISUID), fd)


def _is_below(path: str, directory: str) -> bool:
    # Everything is below the root, and a server may well be started there.
    return directory != "/" and os.path.commonpath((path, directory)) == directory
