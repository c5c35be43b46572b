"""Gathers facts about the files of this host, for the planner.

`FileFacts` looks at each path once and remembers the answer, so it describes one moment; each command gets a
new one. Every question to the system goes through its `lookups`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import BinaryIO, Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.errors import ProfileRefused
from paddock.own_program import is_private_or_sticky
from paddock.sandbox.host.absence import NO_FILE, OUT_OF_REACH, refuse_unless
from paddock.sandbox.host.git_index import Index, UnreadableIndex, can_name_submodules, read_index
from paddock.sandbox.host.linkless import is_at
from paddock.sandbox.host.look import LINK_LIMIT, Kind, Link, PathFact
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import (
    PLACEHOLDER_MODES,
    PLACEHOLDER_NOTE,
    PLACEHOLDER_SHARED_BITS,
    PlaceholderKind,
)
from paddock.sandbox.host.step_budget import take_steps
from paddock.sandbox.profile.access import MINIMAL, SLASH_TMP, Surroundings
from paddock.sandbox.profile.path import ROOT, clean, depth, is_within, join, parent
from paddock.shortage import raise_if_short

GITDIR_LIMIT_BYTES: Final = 8192
"""Limit for a `.git` file: a prefix and one path, which has at most 4096 bytes."""

CONFIG_LIMIT_BYTES: Final = 1024 * 1024
"""How much of a repository's settings is read."""

INDEX_LIMIT_BYTES: Final = 128 * 1024 * 1024
"""Limit for a git index with submodules, which is read as a whole: about 100 bytes for each file."""

INDEX_SEARCHED_BYTES: Final = 1024 * 1024 * 1024
"""Limit for an index without submodules, which is only searched for them: ten million files."""

INDEX_ENTRY_BYTES: Final = 64
"""Least bytes of a file's entry in an index. Reading an entry takes one step of the budget."""

INDEX_STEP_BYTES: Final = 2048
"""Bytes of an index to search in one step."""

INDEX_PART_BYTES: Final = 1024 * 1024
"""Bytes of an index to search at a time."""

INDEX_COUNT: Final = 64
"""Indexes to remember: those of a few workspaces and their submodules, at most 256 KiB of each."""

_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC

_HEAD: Final = re.compile(rb"ref:\s*refs/|[0-9a-fA-F]{40}")
"""How the file HEAD of a repository begins."""

_WORKTREE: Final = re.compile(
    rb'^[ \t]*(?:\[[^]\n]*\][ \t]*)?worktree[ \t]*=[ \t]*("(?:[^"\\\n]|\\.)*"|[^"#;\n]*)',
    re.IGNORECASE | re.MULTILINE,
)
"""The setting `core.worktree` (git-config(1))."""

_indexes: dict[tuple[int, ...], Index | UnreadableIndex] = {}
"""The content of indexes, or why they can't be read. Git replaces the file at each change, so the same change
time means the same index."""


NAMES_LIMIT: Final = 256
"""Names on the way to a file. The kernel takes 2,048, and nobody works with a hundred."""


class FileFacts:
    """The files of this host, each examined once."""

    def __init__(self) -> None:
        self.lookups: Final = LookupRecord()
        self._known: dict[str, PathFact] = {ROOT: PathFact(Kind.DIRECTORY, ROOT)}

    def at(self, path: str) -> PathFact:
        """Return what is at a path. A path that this user can't reach counts as missing and hidden.

        Raises ProfileRefused for a path of more than NAMES_LIMIT names, each of which is looked up from the
        root.
        """
        if depth(path) > NAMES_LIMIT:
            raise ProfileRefused(path, f"is more than {NAMES_LIMIT} names long", "name a directory above it")
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
        """Return the directory that a `.git` file points to, absolute but with links and `..`."""
        first = self.lookups.ask(_first_line, path)
        if not first.startswith(b"gitdir:"):
            return None
        return _joined(parent(path), first.removeprefix(b"gitdir:").strip())

    def commondir(self, directory: str) -> str | None:
        """Return the repository that a linked worktree belongs to, absolute but with links and `..`."""
        return self.pointer(join(directory, "commondir"))

    def pointer(self, path: str) -> str | None:
        """Return the path that a file consists of, absolute but with links and `..`."""
        return _joined(parent(path), self.lookups.ask(_first_line, path).rstrip())

    def worktrees(self, directory: str) -> tuple[str, ...]:
        """Return where a repository's settings say that its working tree is, absolute but as written."""
        common = self.commondir(directory) or directory
        files = (join(common, "config"), join(directory, "config.worktree"))
        written = [path for file in files for path in self.lookups.ask(_written_worktrees, file)]
        return tuple(path for each in written if (path := _joined(directory, each)) is not None)

    def is_git_directory(self, directory: str) -> bool:
        """Return whether git certainly takes a directory for a repository, and looks no further."""
        return self.lookups.ask(_is_git_directory, directory)

    def gitlinks(self, directory: str) -> tuple[str, ...]:
        """Return where a repository's index has submodules. Raises ProfileRefused if it can't be read."""
        index = self.lookups.ask(_index, join(directory, "index"))
        names = index.gitlinks
        if index.shared is not None:
            names += self.lookups.ask(_index, join(directory, os.fsdecode(index.shared))).gitlinks
        paths = dict.fromkeys(map(os.fsdecode, names))
        return tuple(path for path in paths if path and not {"", ".", ".."} & set(path.split("/")))

    def is_empty(self, directory: str) -> bool:
        """Return whether a directory certainly holds nothing."""
        return self.lookups.ask(_is_empty, directory)

    def is_open(self, directory: str) -> bool:
        """Return whether any user may create something there, even if it is sticky; True if unknown."""
        return self.lookups.ask(_is_open, directory)

    def can_grow(self, directory: str) -> bool:
        """Return whether this user could ever create something there; False only if that is certain."""
        return self.lookups.ask(_can_grow, directory)

    def _follow(self, directory: PathFact, name: str) -> PathFact:
        """Return what is at a name in a directory that is known, and where its links lead."""
        links = list(directory.links)
        # Most paths have no links, and copying takes longer than looking.
        reached = replace(directory, links=()) if links else directory
        names = [name]
        while names and not reached.is_circle:
            name = names.pop()
            if name == "..":
                reached = self.at(parent(reached.real))
            elif name not in ("", "."):
                found = self._entry(reached, name)
                if isinstance(found, PathFact):
                    reached = found
                    continue
                links.append(found)
                # Every link on the way counts, as in the kernel: 40 links that each name the next twice would
                # take for ever.
                if len(links) > LINK_LIMIT:
                    reached = PathFact(Kind.MISSING, found.path, first_missing=found.path, is_circle=True)
                elif found.target.startswith("/"):
                    reached = self.at(ROOT)
                names += reversed(found.target.split("/"))
        return replace(reached, links=(*links, *reached.links)) if links else reached

    def _entry(self, directory: PathFact, name: str) -> PathFact | Link:
        path = join(directory.real, name)
        if directory.first_missing is not None:
            return replace(directory, real=path)
        status = self.lookups.ask(_status, path)
        if isinstance(status, int):
            return PathFact(Kind.MISSING, path, (), path, is_hidden=status == errno.EACCES)
        if status.target is not None:
            temporary = self.lookups.ask(os.path.realpath, SLASH_TMP)
            is_exposed = is_within(path, temporary) or self.is_open(directory.real)
            return Link(path, status.target, is_exposed)
        if status.is_placeholder:
            # It belongs to another command and goes with it, so this command must hold the place too.
            return PathFact(Kind.MISSING, path, (), path, placeholder=_own_placeholder(status))
        is_directory = stat.S_ISDIR(status.mode)
        return PathFact(Kind.DIRECTORY if is_directory else Kind.FILE, path)


class _Status(Struct, frozen=True):
    """The parts of a file's status that matter to a plan."""

    mode: int
    owner: int
    is_placeholder: bool
    target: str | None
    """The target of a link."""


def _own_placeholder(status: _Status) -> PlaceholderKind | None:
    """Return the kind of a placeholder that this user can hold; None for others. Nobody can use a socket."""
    if os.geteuid() not in (0, status.owner) or stat.S_ISSOCK(status.mode):
        return None
    return PlaceholderKind.DIRECTORY if stat.S_ISDIR(status.mode) else PlaceholderKind.FILE


def is_vacant(kind: PlaceholderKind, answer: object) -> bool:
    """Return whether an answer in `FileFacts.lookups` says that nothing is at a path, or a placeholder of
    this kind that the user can hold."""
    if not isinstance(answer, _Status):
        return answer == errno.ENOENT
    return answer.is_placeholder and _own_placeholder(answer) is kind


def _status(path: str) -> _Status | int:
    """Return what is at a path, without following links, or the error number if nothing is in reach."""
    try:
        status = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
    except OSError as error:
        if error.errno == errno.EACCES:
            return errno.EACCES
        refuse_unless(NO_FILE, error, path)
        return errno.ENOENT
    return _Status(status.st_mode, status.st_uid, is_placeholder(path, status), target)


def _is_empty(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except OSError as error:
        raise_if_short(error)
        return False


def _is_open(directory: str) -> bool:
    try:
        return bool(os.stat(directory).st_mode & (stat.S_ISVTX | stat.S_IWOTH))
    except OSError:
        return True


def _joined(directory: str, written: bytes) -> str | None:
    """Return the path written in a file; None if the text can't be a path.

    Each `..` stays: what it leads to depends on the links before it, and the kernel follows those.
    """
    if not written or b"\0" in written:
        return None
    names = os.path.join(directory, os.fsdecode(written)).split("/")
    return "/" + "/".join(name for name in names if name not in ("", "."))


def _first_line(path: str) -> bytes:
    """Return the first line of a file, without its end; nothing if it is not a file."""
    file = _open_file(path)
    if file is None:
        return b""
    try:
        return os.read(file, GITDIR_LIMIT_BYTES).partition(b"\n")[0]
    finally:
        os.close(file)


def _written_worktrees(path: str) -> tuple[bytes, ...]:
    """Return each `worktree` in a file of git's settings, whatever its section: git knows it in one only."""
    file = _open_file(path)
    if file is None:
        return ()
    with os.fdopen(file, "rb") as content:
        found = _WORKTREE.findall(content.read(CONFIG_LIMIT_BYTES))
    return tuple(re.sub(rb"\\(.)", rb"\1", value.strip(b" \t\r").strip(b'"')) for value in found)


def _is_git_directory(directory: str) -> bool:
    """Decide as git does (`is_git_directory` in its setup.c); in doubt, return False."""
    head = join(directory, "HEAD")
    try:
        says_what = os.readlink(head).startswith("refs/")
    except OSError as error:
        raise_if_short(error)
        says_what = os.access(head, os.R_OK) and _HEAD.match(_first_line(head)) is not None
    if not says_what:
        # A directory that may be closed to us need not show more.
        return False
    common = _joined(directory, _first_line(join(directory, "commondir")).rstrip()) or directory
    return all(os.access(join(common, name), os.X_OK) for name in ("objects", "refs"))


def _open_file(path: str) -> int | None:
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
                known = _found_in(content, status.st_size)
            except UnreadableIndex as error:
                known = error
            while len(_indexes) >= INDEX_COUNT:
                _indexes.pop(next(iter(_indexes), key), None)
            _indexes[key] = known
        if isinstance(known, UnreadableIndex):
            raise ProfileRefused(path, str(known), "mend it with git, or run the command elsewhere")
        return known


def _found_in(content: BinaryIO, size_bytes: int) -> Index:
    """Return what an index says about submodules. Raises UnreadableIndex, and TakesLong."""
    if size_bytes > INDEX_SEARCHED_BYTES:
        raise UnreadableIndex("is too large to look for submodules in")
    take_steps(1 + size_bytes // INDEX_STEP_BYTES)
    before = b""
    while part := content.read(INDEX_PART_BYTES):
        if can_name_submodules(before + part):
            break
        before = part[-3:]
    else:
        return Index()
    take_steps(size_bytes // INDEX_ENTRY_BYTES)
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
    """Return whether the file looks like a placeholder."""
    return _may_be_placeholder(status.st_mode, status.st_size == 0, _has_one_name(status)) and (
        not stat.S_ISDIR(status.st_mode) or _holds_nothing(path)
    )


def _has_one_name(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) or status.st_nlink == 1


def _may_be_placeholder(mode: int, is_empty: bool, has_one_name: bool) -> bool:
    """Return whether a file of this mode, or an empty directory, may be a placeholder.

    A file with a second name could be written under that name, although this one is read-only.
    """
    # A directory inherits the set-group-ID bit of its parent.
    own = stat.S_IMODE(mode) & ~(stat.S_ISGID | PLACEHOLDER_SHARED_BITS)
    if stat.S_ISDIR(mode):
        return own == PLACEHOLDER_MODES[PlaceholderKind.DIRECTORY]
    is_file = stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
    return is_file and own == PLACEHOLDER_MODES[PlaceholderKind.FILE] and is_empty and has_one_name


def _holds_nothing(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            return all(entry.name == PLACEHOLDER_NOTE for entry in entries)
    except OSError as error:
        refuse_unless(OUT_OF_REACH, error, directory)
        # It belongs to another user; whoever wants to hold it too learns that.
        return True


class Tmpdir(Struct, frozen=True):
    """The temporary directory of the launcher of commands, never one that a command or a client names."""

    name: str
    directory: MountedFile
    """The directory that it led to at the start."""
    links: tuple[Link, ...]
    """The links that led there, none where any command could have made it."""


def find_tmpdir(name: str | None) -> Tmpdir | None:
    """Return the directory that TMPDIR names, or None if it can't be trusted. Call it once, at the start."""
    if name is None or not name.startswith("/") or "\0" in name:
        return None
    name = clean(name)
    fact = FileFacts().at(name)
    if fact.kind is not Kind.DIRECTORY or any(link.is_exposed for link in fact.links):
        return None
    status = os.lstat(fact.real)
    return Tmpdir(name, MountedFile(fact.real, status.st_dev, status.st_ino), fact.links)


def tmpdir_problem(tmpdir: Tmpdir, project_roots: tuple[str, ...]) -> str | None:
    """Return why TMPDIR is not granted; None if it is the same directory, and private or sticky."""
    if any(is_within(link.path, root) for link in tmpdir.links for root in project_roots):
        return "a link in the project leads there"
    directory = tmpdir.directory
    if os.path.realpath(tmpdir.name) != directory.path or not is_at(directory):
        return "it is another directory now"
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
    own_searched: tuple[tuple[str, str, str], ...] = (),
    rules_directories: tuple[str, ...] = (),
    *,
    needs_minimal: bool = True,
) -> Surroundings:
    """Return what special paths refer to here. Project roots are resolved; one that is missing is refused.

    `tmpdir` counts only while it is the directory that was found, and if no command in these project roots
    can have pointed it there. The paths in `private` and `own` are without links. Without `needs_minimal` the
    minimal directories are left out.
    """
    named = {os.path.abspath(root): _resolved(root) for root in project_roots}
    roots = tuple(dict.fromkeys(named.values()))
    is_usable = tmpdir is not None and tmpdir_problem(tmpdir, roots) is None
    return Surroundings(
        project_roots=roots,
        linked_roots=tuple((name, real) for name, real in named.items() if name != real),
        tmpdir=tmpdir.name if tmpdir is not None and is_usable else None,
        has_slash_tmp=os.path.isdir(SLASH_TMP),
        minimal=tuple(filter(os.path.exists, MINIMAL)) if needs_minimal else (),
        private=private,
        own=own,
        own_links=own_links,
        own_searched=own_searched,
        rules_directories=rules_directories,
    )


def _resolved(root: str) -> str:
    try:
        return os.path.realpath(root, strict=True)
    except OSError as error:
        problem = "does not exist" if error.errno == errno.ENOENT else f"can't be used: {error.strerror}"
        raise ProfileRefused(f"the project root {root}", problem, "name a directory") from error
