"""Questions about paths of this host, for the planner.

Each is a function of a path, without a memory of its own, whose answer is a plain value: an answer can be
kept and compared with that of the next process. What the answers mean is decided elsewhere. This imports next
to nothing, because a command line asks before it loads anything else.
"""

from __future__ import annotations

import errno
import os
import stat

from paddock import installation, own_program
from paddock.sandbox.host import device_node, hard_link, kernel_file, linkless, pointer_file
from paddock.sandbox.host.absence import ABSENT, NO_FILE, OUT_OF_REACH, refuse_unless
from paddock.sandbox.host.linkless import identity_without_links, status_at
from paddock.sandbox.host.placeholder import (
    PLACEHOLDER_MODES,
    PLACEHOLDER_NOTE,
    PLACEHOLDER_SHARED_BITS,
    PlaceholderKind,
)
from paddock.sandbox.host.propagation import read_table
from paddock.shortage import raise_if_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Final

    Status = tuple[int, int, bool, str | None]
    """The parts of a file's status that matter to a plan: mode, owner, whether it looks like a placeholder,
    and the target of a link."""

    NamesIn = tuple[tuple[int, int] | None, tuple[str, ...], tuple[str, ...]]
    """Inode and change time of a directory, if these would tell of a change; directories in it; other
    names."""

    Installed = tuple[
        tuple[str, ...],
        tuple[str, ...],
        tuple[tuple[str, str, str], ...],
        tuple[str, ...],
        tuple[tuple[int, int], ...],
    ]
    """Own paths, links, searched paths, directories of rules, shared files."""

CONFIG_LIMIT_BYTES: Final = 1024 * 1024
"""Limit for a repository's settings."""

_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_PROGRAM_PARTS: Final = ("st_dev", "st_ino", "st_mode", "st_mtime_ns")
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
_COMMIT_DIGITS: Final = 40
_HEAD_BYTES: Final = 255
"""How much of a HEAD git reads."""
_GIT_SPACE: Final = b" \t\r\n"


def status(path: str) -> Status | int:
    """Return what is at a path, without following links, or the error number if nothing is in reach."""
    try:
        found = status_at(path)
        if isinstance(found, int):
            if found == errno.ENOENT:
                return found
            raise OSError(found, os.strerror(found))
        mode, owner, size_bytes, names = found
        target = os.readlink(path) if stat.S_ISLNK(mode) else None
    except OSError as error:
        if error.errno == errno.EACCES:
            return errno.EACCES
        refuse_unless(NO_FILE, error, path)
        return errno.ENOENT
    return mode, owner, _is_placeholder(path, mode, size_bytes, names), target


def real_path(path: str) -> str:
    """Return a path without links."""
    return linkless.real_path(path)


def real_directories(names: str) -> tuple[str, ...]:
    """Return where each of these leads, without links; an empty path where there is nothing. The names are
    separated by NUL."""
    return tuple("" if status_at(name) in ABSENT else real_path(name) for name in names.split("\0"))


def exists(path: str) -> bool:
    """Return whether something is there, links followed."""
    return os.path.exists(path)


def is_directory(path: str) -> bool:
    """Return whether a directory is there, links followed."""
    return os.path.isdir(path)


def is_empty(directory: str) -> bool:
    """Return whether a directory certainly holds nothing."""
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except OSError as error:
        raise_if_short(error)
        return False


def is_open(directory: str) -> bool:
    """Return whether any user may create something there, even if it is sticky; True if unknown."""
    try:
        return bool(os.stat(directory).st_mode & (stat.S_ISVTX | stat.S_IWOTH))
    except OSError:
        return True


def is_private_or_sticky(directory: str) -> bool:
    """Return whether other users can neither make nor exchange what this user has in a directory."""
    return own_program.is_private_or_sticky(directory)


def can_grow(directory: str) -> bool:
    """Return whether this user could ever create something there; False only if that is certain."""
    try:
        is_sealed = bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
        is_own = os.geteuid() in (0, os.stat(directory).st_uid)
        return not is_sealed and (is_own or os.access(directory, os.W_OK))
    except OSError:
        return True


def pointer(path: str) -> bytes:
    """Return the text of a file that consists of a path, and one byte more than may be in it; nothing if it
    is not a file. `pointer_file` reads the text."""
    return beginning(path, pointer_file.LIMIT_BYTES + 1)


def settings(path: str) -> bytes:
    """Return the text of a file of git's settings, and one byte more than may be in it; nothing if it is not
    a file."""
    return beginning(path, CONFIG_LIMIT_BYTES + 1)


def is_git_directory(directory: str) -> bool:
    """Decide as git does (`is_git_directory` in its setup.c); in doubt, return False."""
    head = os.path.join(directory, "HEAD")
    try:
        says_what = os.readlink(head).startswith("refs/")
    except OSError as error:
        raise_if_short(error)
        says_what = os.access(head, os.R_OK) and _is_head(beginning(head, _HEAD_BYTES))
    if not says_what:
        # A directory that may be closed to us need not show more.
        return False
    file = os.path.join(directory, "commondir")
    text = pointer(file)
    if len(text) > pointer_file.LIMIT_BYTES or (not text and os.path.lexists(file)):
        return False
    common = joined(directory, pointer_file.common_directory(text)) or directory
    return all(os.access(os.path.join(common, name), os.X_OK) for name in ("objects", "refs"))


def file_stamp(path: str) -> tuple[int, ...] | None:
    """Return what changes with the content of a regular file; None if there is none.

    Git replaces an index at each change, so the same change time means the same index.
    """
    file = open_file(path)
    if file is None:
        return None
    try:
        found = os.fstat(file)
    finally:
        os.close(file)
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns


def identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of what is at a path that has no links in it; None if nothing is in reach."""
    try:
        return identity_without_links(path)
    except OSError as error:
        raise_if_short(error)
        return None


def own_names_in(directory: str) -> NamesIn:
    """Return the directories in a directory, and the names that may be of `installation.shared_files`."""
    inodes = {inode for _, inode in installation.shared_files()}
    directories, hits = [], []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.inode() in inodes:
                hits.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
    return None, tuple(directories), tuple(hits)


def has_names_in(directory: str, answer: NamesIn, vacant: Container[str] = ()) -> bool:
    """Return whether `own_names_in` would find the same as at some time before, but for `vacant` paths.

    A directory whose change time was old enough by then, and is the same now, need not be read again.
    """
    stamp, directories, hits = answer
    if stamp is not None:
        now = os.stat(directory, follow_symlinks=False)
        if (now.st_ino, now.st_ctime_ns) == stamp:
            return True
    _, found, found_hits = own_names_in(directory)
    left = [name for name in found if os.path.join(directory, name) not in vacant]
    known = [name for name in directories if os.path.join(directory, name) not in vacant]
    return sorted(left) == sorted(known) and sorted(found_hits) == sorted(hits)


def several_names(paths: str) -> tuple[tuple[int, int], ...]:
    """Return which of these files, and of the files in these directories, have several names. The paths are
    separated by NUL."""
    return tuple(sorted(hard_link.files_with_several_names(paths.split("\0"), frozenset())))


def version(path: str) -> tuple[int, ...] | None:
    """Return what changes with the content of a file of Paddock's own, links followed."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise_if_short(error)
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def is_changeable_elsewhere(path: str) -> bool:
    """Return whether a file is a link, or has other names."""
    try:
        found = os.lstat(path)
    except OSError as error:
        raise_if_short(error)
        return False
    return stat.S_ISLNK(found.st_mode) or found.st_nlink > 1


def joined(directory: str, written: bytes) -> str | None:
    """Return the path written in a file; None if the text can't be a path.

    Each `..` stays: what it leads to depends on the links before it, and the kernel follows those.
    """
    if not written or b"\0" in written:
        return None
    names = os.path.join(directory, os.fsdecode(written)).split("/")
    return "/" + "/".join(name for name in names if name not in ("", "."))


# --- about the host, whatever the path --------------------------------------


def mount_table(_: str) -> bytes:
    """Return the mounts of this process, a line for each. Raises OSError."""
    return read_table()


def closed_files(_: str) -> tuple[tuple[str, bool], ...]:
    """Return the kernel's own files that a command has no use for, and whether each is a directory."""
    return kernel_file.closed_files()


def owned_nodes(_: str) -> tuple[str, ...]:
    """Return the device nodes in every sandbox that a command of this user would own."""
    return device_node.owned_nodes()


def installed_files(_: str) -> Installed:
    """Return what `installation` says of Paddock's own files."""
    return (
        installation.own_paths(),
        installation.links(),
        installation.searched(),
        installation.rules_directories(),
        tuple(installation.shared_files()),
    )


def program(name: str) -> tuple[tuple[object, ...], ...]:
    """Return the programs of Paddock's PATH that have this name, and where each was found."""
    found = own_program.find(name, own_program.search_path())
    return tuple(
        (each.path, is_systems, *(getattr(each.status, part) for part in _PROGRAM_PARTS))
        for programs, is_systems in ((found.system, True), (found.others, False))
        for each in programs
    )


def is_vacant(kind: str, answer: object) -> bool:
    """Return whether an answer to `status` says that nothing is at a path, or a placeholder of this kind that
    the user can hold."""
    if not isinstance(answer, tuple):
        return answer == errno.ENOENT
    mode, owner, is_one, _ = answer
    return is_one and own_placeholder(mode, owner) == kind


def own_placeholder(mode: int, owner: int) -> str | None:
    """Return the kind of a placeholder that this user can hold; None for others. Nobody can use a socket."""
    if os.geteuid() not in (0, owner) or stat.S_ISSOCK(mode):
        return None
    return PlaceholderKind.DIRECTORY if stat.S_ISDIR(mode) else PlaceholderKind.FILE


# --- steps on the way to an answer ------------------------------------------


def beginning(path: str, limit_bytes: int) -> bytes:
    """Return the beginning of a regular file; nothing if it is not one."""
    file = open_file(path)
    if file is None:
        return b""
    pieces = []
    try:
        while limit_bytes and (piece := os.read(file, limit_bytes)):
            pieces.append(piece)
            limit_bytes -= len(piece)
    finally:
        os.close(file)
    return b"".join(pieces)


def beginning_of(path: str) -> bytes:
    """Return the text of a small file of the kernel's; nothing if there is none."""
    return beginning(path, CONFIG_LIMIT_BYTES)


def open_file(path: str) -> int | None:
    """Open a regular file; None if there is no such file. Never waits for a pipe or a lease."""
    try:
        file = os.open(path, _OPEN_FLAGS)
    except OSError as error:
        refuse_unless(NO_FILE, error, path)
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def is_placeholder(path: str, found: os.stat_result) -> bool:
    """Return whether a file with this status looks like a placeholder."""
    return _is_placeholder(path, found.st_mode, found.st_size, found.st_nlink)


def has_mode_of_placeholder(mode: int) -> bool:
    """Return whether a file or directory of this mode may be a placeholder."""
    # A directory inherits the set-group-ID bit of its parent.
    own = stat.S_IMODE(mode) & ~(stat.S_ISGID | PLACEHOLDER_SHARED_BITS)
    if stat.S_ISDIR(mode):
        return own == PLACEHOLDER_MODES[PlaceholderKind.DIRECTORY]
    return (stat.S_ISREG(mode) or stat.S_ISSOCK(mode)) and own == PLACEHOLDER_MODES[PlaceholderKind.FILE]


def _is_placeholder(path: str, mode: int, size_bytes: int, names: int) -> bool:
    if not has_mode_of_placeholder(mode):
        return False
    # A file with a second name could be written under that name, although this one is read-only.
    return holds_nothing(path) if stat.S_ISDIR(mode) else size_bytes == 0 and names == 1


def _is_head(text: bytes) -> bool:
    """Return whether the file HEAD of a repository begins so (`validate_headref` in git's setup.c)."""
    name, colon, reference = text.partition(b":")
    if colon and name == b"ref":
        return reference.lstrip(_GIT_SPACE).startswith(b"refs/")
    commit = text[:_COMMIT_DIGITS]
    return len(commit) == _COMMIT_DIGITS and not commit.translate(None, _HEX_DIGITS)


def holds_nothing(directory: str) -> bool:
    """Return whether there is nothing in a directory besides what may be in a placeholder."""
    try:
        with os.scandir(directory) as entries:
            return all(entry.name == PLACEHOLDER_NOTE for entry in entries)
    except OSError as error:
        refuse_unless(OUT_OF_REACH, error, directory)
        # It belongs to another user; whoever wants to hold it too learns that.
        return True
