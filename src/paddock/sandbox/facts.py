"""Facts about the files of this host, for the planner.

Each path is looked at once and the answer remembered: one `FileFacts` describes one
moment, and is made anew for each command.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from paddock.errors import ProfileRefused
from paddock.own_program import is_private_or_sticky
from paddock.sandbox.absence import NO_FILE, OUT_OF_REACH, refuse_unless
from paddock.sandbox.access import SLASH_TMP, Surroundings
from paddock.sandbox.git_index import Index, UnreadableIndex, can_name_submodules, read_index
from paddock.sandbox.look import LINK_LIMIT, Kind, Link, PathFact
from paddock.sandbox.mount import (
    PLACEHOLDER_MODES,
    PLACEHOLDER_NOTE,
    PLACEHOLDER_SHARED_BITS,
    MountedFile,
    PlaceholderKind,
)
from paddock.sandbox.mounted_file import is_at
from paddock.sandbox.path import ROOT, clean, is_within, join, parent
from paddock.sandbox.shortage import raise_if_short

MINIMAL: Final = (
    "/bin",
    "/sbin",
    "/usr",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system/sw",
)
"""What programs need to start, on the distributions that we know."""

GITDIR_LIMIT_BYTES: Final = 8192
"""Of a `.git` file: a prefix and one path, which has at most 4096 bytes."""

INDEX_LIMIT_BYTES: Final = 128 * 1024 * 1024
"""Of an index of git with submodules, which is read as a whole: about 100 bytes for each file."""

INDEX_PART_BYTES: Final = 1024 * 1024
"""Of an index is searched at a time."""

INDEX_COUNT: Final = 64
"""Indexes that are remembered: those of some workspaces and their submodules, at most 256 KiB of each."""

_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

_indexes: dict[tuple[int, ...], Index] = {}
"""What was found in indexes. Git makes each anew, so one with the same change time is the same."""


class FileFacts:
    """The files of this host, each looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, PathFact] = {ROOT: PathFact(Kind.DIRECTORY, ROOT)}
        self._can_grow: dict[str, bool] = {}

    def at(self, path: str) -> PathFact:
        """What is there. What this user can't reach counts as missing, and is hidden."""
        known = self._known.get(path)
        unknown = []
        while known is None:
            unknown.append(path)
            path = parent(path)
            known = self._known.get(path)
        for below in reversed(unknown):
            known = self._known[below] = self._follow(known, below.rsplit("/", 1)[1])
        return known

    def gitdir(self, path: str) -> str | None:
        """The directory that a `.git` file points to, absolute but with its links."""
        first = _first_line(path)
        if not first.startswith(b"gitdir:"):
            return None
        return _joined(parent(path), first.removeprefix(b"gitdir:").strip())

    def commondir(self, directory: str) -> str | None:
        """The repository that a linked worktree belongs to, absolute but with its links."""
        line = _first_line(join(directory, "commondir")).rstrip()
        return _joined(directory, line)

    def gitlinks(self, directory: str) -> tuple[str, ...]:
        """Where the index of a repository has submodules. Raises ProfileRefused if it can't be read."""
        index = _index(join(directory, "index"))
        names = index.gitlinks
        if index.shared is not None:
            names += _index(join(directory, os.fsdecode(index.shared))).gitlinks
        paths = dict.fromkeys(map(os.fsdecode, names))
        return tuple(path for path in paths if path and not {"", ".", ".."} & set(path.split("/")))

    def is_empty(self, directory: str) -> bool:
        """Whether a directory certainly holds nothing."""
        try:
            with os.scandir(directory) as entries:
                return next(entries, None) is None
        except OSError as error:
            raise_if_short(error)
            return False

    def is_open(self, directory: str) -> bool:
        """Whether any user may make something there, also if it is sticky; or it can't be known."""
        try:
            return bool(os.stat(directory).st_mode & (stat.S_ISVTX | stat.S_IWOTH))
        except OSError:
            return True

    def can_grow(self, directory: str) -> bool:
        """Whether this user could ever make something there. Only what certainly can't be is False."""
        known = self._can_grow.get(directory)
        if known is None:
            known = self._can_grow[directory] = _can_grow(directory)
        return known

    def _follow(self, directory: PathFact, name: str) -> PathFact:
        """What is at a name in a place that is known, and where its links lead."""
        links = list(directory.links)
        place = replace(directory, links=())
        names = [name]
        while names and not place.is_circle:
            name = names.pop()
            if name == "..":
                place = self.at(parent(place.real))
            elif name not in ("", "."):
                found = self._entry(place, name)
                if isinstance(found, PathFact):
                    place = found
                    continue
                links.append(found)
                # All on the way count, as in the kernel: 40 that name the next twice take for ever.
                if len(links) > LINK_LIMIT:
                    place = PathFact(Kind.MISSING, found.path, first_missing=found.path, is_circle=True)
                elif found.target.startswith("/"):
                    place = self.at(ROOT)
                names += reversed(found.target.split("/"))
        return replace(place, links=(*links, *place.links))

    def _entry(self, directory: PathFact, name: str) -> PathFact | Link:
        path = join(directory.real, name)
        if directory.first_missing is not None:
            return replace(directory, real=path)
        try:
            status = os.lstat(path)
            target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
        except OSError as error:
            is_hidden = error.errno == errno.EACCES
            if not is_hidden:
                refuse_unless(NO_FILE, error, path)
            return PathFact(Kind.MISSING, path, (), path, is_hidden=is_hidden)
        if target is not None:
            is_exposed = is_within(path, os.path.realpath(SLASH_TMP)) or self.is_open(directory.real)
            return Link(path, target, is_exposed)
        if is_placeholder(path, status):
            # Of another command, and it goes with that: this one has to hold the place, too.
            is_own = os.geteuid() in (0, status.st_uid)
            held = PlaceholderKind.DIRECTORY if stat.S_ISDIR(status.st_mode) else PlaceholderKind.FILE
            return PathFact(Kind.MISSING, path, (), path, placeholder=held if is_own else None)
        return PathFact(Kind.DIRECTORY if stat.S_ISDIR(status.st_mode) else Kind.FILE, path)


def _joined(directory: str, written: bytes) -> str | None:
    """Return the path that is written in a file; None if it can be no path."""
    if not written or b"\0" in written:
        return None
    return clean(os.path.join(directory, os.fsdecode(written)))


def _first_line(path: str) -> bytes:
    """Return the first line of a file, without its end; nothing of what is none."""
    file = _open_file(path)
    if file is None:
        return b""
    try:
        return os.read(file, GITDIR_LIMIT_BYTES).partition(b"\n")[0]
    finally:
        os.close(file)


def _open_file(path: str) -> int | None:
    """Open a regular file; None if there is none. Never waits for a pipe or a lease."""
    try:
        file = os.open(path, _OPEN_FLAGS)
    except OSError as error:
        refuse_unless(NO_FILE, error, path)
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _index(path: str) -> Index:
    file = _open_file(path)
    if file is None:
        return Index()
    with os.fdopen(file, "rb") as content:
        status = os.fstat(file)
        key = (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)
        known = _indexes.get(key)
        if known is None:
            try:
                known = _found_in(content)
            except UnreadableIndex as error:
                remedy = "mend it with git, or run the command elsewhere"
                raise ProfileRefused(path, str(error), remedy) from error
            while len(_indexes) >= INDEX_COUNT:
                _indexes.pop(next(iter(_indexes), key), None)
            _indexes[key] = known
        return known


def _found_in(content: BinaryIO) -> Index:
    """Return what an index tells of submodules. Raises UnreadableIndex."""
    before = b""
    while part := content.read(INDEX_PART_BYTES):
        if can_name_submodules(before + part):
            break
        before = part[-3:]
    else:
        return Index()
    content.seek(0)
    data = content.read(INDEX_LIMIT_BYTES + 1)
    if len(data) > INDEX_LIMIT_BYTES:
        raise UnreadableIndex("is too large to look for submodules in")
    return read_index(data)


def _can_grow(directory: str) -> bool:
    try:
        is_sealed = bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
        is_own = os.geteuid() in (0, os.stat(directory).st_uid)
        return not is_sealed and (is_own or os.access(directory, os.W_OK))
    except OSError:
        return True


def is_placeholder(path: str, status: os.stat_result) -> bool:
    """Whether what is there was made to hold a place that is missing, as far as can be seen."""
    # A directory takes over the set-group-ID bit of its parent.
    mode = stat.S_IMODE(status.st_mode) & ~(stat.S_ISGID | PLACEHOLDER_SHARED_BITS)
    if stat.S_ISDIR(status.st_mode):
        return mode == PLACEHOLDER_MODES[PlaceholderKind.DIRECTORY] and _holds_nothing(path)
    return (
        stat.S_ISREG(status.st_mode)
        and mode == PLACEHOLDER_MODES[PlaceholderKind.FILE]
        and status.st_size == 0
    )


def _holds_nothing(directory: str) -> bool:
    try:
        return set(os.listdir(directory)) <= {PLACEHOLDER_NOTE}
    except OSError as error:
        refuse_unless(OUT_OF_REACH, error, directory)
        # Of another user: whoever wants to hold it, too, is told so.
        return True


@dataclass(frozen=True, slots=True)
class Tmpdir:
    """The temporary directory of whoever launches commands, never one that a command or a client names."""

    name: str
    directory: MountedFile
    """Where it led at the start."""
    links: tuple[Link, ...]
    """Those that led there, none in a place where every command could have made it."""


def find_tmpdir(name: str | None) -> Tmpdir | None:
    """Return the directory that TMPDIR names, to be called once at the start; None if it can't be trusted."""
    if name is None or not name.startswith("/") or "\0" in name:
        return None
    name = clean(name)
    fact = FileFacts().at(name)
    if fact.kind is not Kind.DIRECTORY or any(link.is_exposed for link in fact.links):
        return None
    status = os.lstat(fact.real)
    return Tmpdir(name, MountedFile(fact.real, status.st_dev, status.st_ino), fact.links)


def tmpdir_problem(tmpdir: Tmpdir, project_roots: tuple[str, ...]) -> str | None:
    """Why it is not granted; None if it is still the same directory, and private to the user or sticky."""
    if any(is_within(link.path, root) for link in tmpdir.links for root in project_roots):
        return "a link in the project leads there"
    directory = tmpdir.directory
    if os.path.realpath(tmpdir.name) != directory.path or not is_at(directory):
        return "it is another directory by now"
    if is_private_or_sticky(directory.path):
        return None
    status = os.stat(directory.path)
    if status.st_uid != os.geteuid():
        return f"it belongs to uid {status.st_uid}"
    return f"others can write there (mode {stat.S_IMODE(status.st_mode):04o})"


def surroundings_of(
    project_roots: tuple[str, ...],
    tmpdir: Tmpdir | None = None,
    private: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
    own_links: tuple[str, ...] = (),
    own_search_directories: tuple[str, ...] = (),
) -> Surroundings:
    """What special paths refer to here. Project roots are resolved; one that is missing is refused.

    `tmpdir` counts only while it is what it was when it was found, and if no command in these project roots
    can have pointed it there. `own` are without links.
    """
    named = {os.path.abspath(root): _resolved(root) for root in project_roots}
    roots = tuple(dict.fromkeys(named.values()))
    is_usable = tmpdir is not None and tmpdir_problem(tmpdir, roots) is None
    return Surroundings(
        project_roots=roots,
        linked_roots=tuple((name, real) for name, real in named.items() if name != real),
        tmpdir=tmpdir.name if tmpdir is not None and is_usable else None,
        has_slash_tmp=os.path.isdir(SLASH_TMP),
        minimal=tuple(path for path in MINIMAL if os.path.exists(path)),
        private=tuple(os.path.realpath(path) for path in private),
        own=own,
        own_links=own_links,
        own_search_directories=own_search_directories,
    )


def _resolved(root: str) -> str:
    try:
        return os.path.realpath(root, strict=True)
    except OSError as error:
        problem = "does not exist" if error.errno == errno.ENOENT else f"can't be used: {error.strerror}"
        raise ProfileRefused(f"the project root {root}", problem, "name a directory") from error
