"""Gathers facts about the files of this host, for the planner.

`FileFacts` looks at each path once and remembers the answer, so it describes one moment; each command gets a
new one. Every question to the system goes through its `lookups`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO, Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.errors import ProfileRefused
from paddock.sandbox.host import pointer_file, question
from paddock.sandbox.host.git_index import Index, UnreadableIndex, can_name_submodules, read_index
from paddock.sandbox.host.git_settings import UnreadableSettings, values_of
from paddock.sandbox.host.linkless import real_path_there
from paddock.sandbox.host.look import LINK_LIMIT, Kind, Link, PathFact
from paddock.sandbox.host.lookup_record import Expect, LookupRecord, Question
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.recheck import Recheck
from paddock.sandbox.host.step_budget import take_steps
from paddock.sandbox.profile.access import MINIMAL, SLASH_TMP, Surroundings
from paddock.sandbox.profile.path import ROOT, clean, depth, is_within, join, parent

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

SETTINGS_STEP_BYTES: Final = 16
"""Bytes of git's settings to read in one step."""

INDEX_COUNT: Final = 64
"""Indexes to remember: those of a few workspaces and their submodules, at most 256 KiB of each."""

_indexes: dict[tuple[int, ...], Index | UnreadableIndex] = {}
"""The content of indexes, or why they can't be read. Git replaces the file at each change, so the same change
time means the same index."""


NAMES_LIMIT: Final = 256
"""Names on the way to a file. The kernel takes 2,048, and nobody works with a hundred."""


class FileFacts:
    """The files of this host, each examined once."""

    def __init__(self, lookups: LookupRecord | None = None) -> None:
        self.lookups: Final = LookupRecord(_EXPECTATIONS) if lookups is None else lookups
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
        """Return the directory that a `.git` file points to, absolute but with links and `..`.

        Like all that reads pointers, it raises ProfileRefused for a text that is too long or has a NUL in it.
        """
        return self._named_in(self.at(path).real, pointer_file.git_directory, parent(path))

    def commondir(self, directory: str) -> str | None:
        """Return the repository that a linked worktree belongs to, absolute but with links and `..`.

        Raises ProfileRefused also if a link stands in place of the file. Git would follow it, but where a
        command has made it, that could show what the profile hides.
        """
        path = join(directory, "commondir")
        if self.at(path).links:
            raise ProfileRefused(path, "is a symlink", "replace it by the file that it leads to")
        return self._named_in(path, pointer_file.common_directory)

    def mercurial_share(self, path: str) -> str | None:
        """Return the directory that a `sharedpath` of Mercurial names, absolute but with links and `..`."""
        return self._named_in(path, pointer_file.mercurial_share)

    def jujutsu_target(self, path: str) -> str | None:
        """Return the directory that a file of Jujutsu names, absolute but with links and `..`."""
        return self._named_in(path, pointer_file.jujutsu_target)

    def _named_in(
        self, path: str, written_in: Callable[[bytes], bytes | None], directory: str | None = None
    ) -> str | None:
        """Return the path that a file consists of; a relative one is of `directory`, or of the file's own."""
        text = self.lookups.ask(question.pointer, path)
        written = written_in(text)
        if written is None:
            return None
        if len(text) > pointer_file.LIMIT_BYTES:
            problem = f"names a repository in more than {pointer_file.LIMIT_BYTES} bytes"
            raise ProfileRefused(path, problem, "write a shorter path")
        if b"\0" in written:
            raise ProfileRefused(path, "names a repository by a path with a NUL", "write the path without it")
        return question.joined(directory or parent(path), written)

    def worktrees(self, directory: str) -> tuple[str, ...]:
        """Return where a repository's settings say that its working tree is, absolute but as written.

        Raises ProfileRefused for settings that git can't read, or that are too long.
        """
        common = self.commondir(directory) or directory
        files = (join(common, "config"), join(directory, "config.worktree"))
        written = [path for file in files for path in self._written_worktrees(file)]
        return tuple(path for each in written if (path := question.joined(directory, each)) is not None)

    def _written_worktrees(self, file: str) -> tuple[bytes, ...]:
        text = self.lookups.ask(question.settings, file)
        if len(text) > question.CONFIG_LIMIT_BYTES:
            problem = f"has more than {question.CONFIG_LIMIT_BYTES} bytes of git's settings"
            raise ProfileRefused(file, problem, "remove what git does not need there")
        take_steps(len(text) // SETTINGS_STEP_BYTES)
        try:
            return values_of(b"worktree", text)
        except UnreadableSettings as error:
            remedy = "mend it, as `git config --list` says where it is wrong"
            raise ProfileRefused(file, "has settings that git can't read", remedy) from error

    def is_git_directory(self, directory: str) -> bool:
        """Return whether git certainly takes a directory for a repository, and looks no further."""
        return self.lookups.ask(question.is_git_directory, directory)

    def gitlinks(self, directory: str) -> tuple[str, ...]:
        """Return where a repository's index has submodules. Raises ProfileRefused if it can't be read."""
        return _usable(name for index in self._indexes(directory) for name in index.gitlinks)

    def sparse_directories(self, directory: str) -> tuple[str, ...]:
        """Return the directories whose content an index leaves to their trees. Raises ProfileRefused."""
        indexes = self._indexes(directory)
        return _usable(name.removesuffix(b"/") for index in indexes for name in index.sparse_directories)

    def _indexes(self, directory: str) -> list[Index]:
        index = self._index(join(directory, "index"))
        if index.shared is None:
            return [index]
        shared = self._index(join(directory, os.fsdecode(index.shared)))
        if not set(index.replaced) <= set(shared.places):
            raise ProfileRefused(
                join(directory, "index"),
                "has submodules in place of files of its shared index, whose names Paddock does not read",
                "run `git update-index --no-split-index`",
            )
        return [index, shared]

    def _index(self, path: str) -> Index:
        # Before it is read: if it changes meanwhile, the next look finds another.
        return Index() if self.lookups.ask(question.file_stamp, path) is None else _index(path)

    def is_empty(self, directory: str) -> bool:
        """Return whether a directory certainly holds nothing."""
        return self.lookups.ask(question.is_empty, directory)

    def is_open(self, directory: str) -> bool:
        """Return whether any user may create something there, even if it is sticky; True if unknown."""
        return self.lookups.ask(question.is_open, directory)

    def can_grow(self, directory: str) -> bool:
        """Return whether this user could ever create something there; False only if that is certain."""
        return self.lookups.ask(question.can_grow, directory)

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
        status = self.lookups.ask(question.status, path)
        if isinstance(status, int):
            return PathFact(Kind.MISSING, path, (), path, is_hidden=status == errno.EACCES)
        mode, owner, is_placeholder, target = status
        if target is not None:
            temporary = self.lookups.ask(question.real_path, SLASH_TMP)
            is_exposed = is_within(path, temporary) or self.is_open(directory.real)
            return Link(path, target, is_exposed)
        if is_placeholder:
            # It belongs to another command and goes with it, so this command must hold the place too.
            return PathFact(Kind.MISSING, path, (), path, placeholder=question.own_placeholder(mode, owner))
        is_directory = stat.S_ISDIR(mode)
        return PathFact(Kind.DIRECTORY if is_directory else Kind.FILE, path)


def _expect_status(recheck: Recheck, path: str, answer: question.Status | int) -> bool:
    if isinstance(answer, int):
        recheck.expect_failure(path, answer)
        return True
    mode, owner, _, target = answer
    # Of the others, more than mode and owner counts.
    is_told_by_mode = target is None and not question.has_mode_of_placeholder(mode)
    if is_told_by_mode:
        recheck.expect_status(path, mode, owner)
    return is_told_by_mode


_EXPECTATIONS: Final[Mapping[Question, Expect]] = {question.status: _expect_status}


def _usable(names: Iterable[bytes]) -> tuple[str, ...]:
    """Return the paths of an index that can be of files in a working tree, each once."""
    paths = dict.fromkeys(map(os.fsdecode, names))
    return tuple(path for path in paths if path and not {"", ".", ".."} & set(path.split("/")))


def _index(path: str) -> Index:
    file = question.open_file(path)
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


class Tmpdir(Struct, frozen=True):
    """The temporary directory of the launcher of commands, never one that a command or a client names."""

    name: str
    directory: MountedFile
    """The directory that it led to at the start."""
    links: tuple[Link, ...]
    """The links that led there, none where any command could have made it."""


def find_tmpdir(name: str | None, lookups: LookupRecord | None = None) -> Tmpdir | None:
    """Return the directory that TMPDIR names, or None if it can't be trusted. Call it once, at the start."""
    record = LookupRecord() if lookups is None else lookups
    if name is None or not name.startswith("/") or "\0" in name:
        return None
    name = clean(name)
    fact = FileFacts(record).at(name)
    if fact.kind is not Kind.DIRECTORY or any(link.is_exposed for link in fact.links):
        return None
    found = record.ask(question.identity, fact.real)
    return None if found is None else Tmpdir(name, MountedFile(fact.real, *found), fact.links)


def tmpdir_problem(
    tmpdir: Tmpdir, project_roots: tuple[str, ...], lookups: LookupRecord | None = None
) -> str | None:
    """Return why TMPDIR is not granted; None if it is the same directory, and private or sticky."""
    record = LookupRecord() if lookups is None else lookups
    if any(is_within(link.path, root) for link in tmpdir.links for root in project_roots):
        return "a link in the project leads there"
    directory = tmpdir.directory
    found = record.ask(question.identity, directory.path)
    real = record.ask(question.real_path, tmpdir.name)
    if real != directory.path or found != (directory.device, directory.inode):
        return "it is another directory now"
    if record.ask(question.is_private_or_sticky, directory.path):
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
    private_names: tuple[str, ...] = (),
    needs_minimal: bool = True,
    lookups: LookupRecord | None = None,
) -> Surroundings:
    """Return what special paths refer to here. Project roots are resolved; one that is missing is refused.

    `tmpdir` counts only while it is the directory that was found, and if no command in these project roots
    can have pointed it there. The paths in `private` and `own` are without links. Without `needs_minimal` the
    minimal directories are left out.
    """
    record = LookupRecord() if lookups is None else lookups
    named: dict[str, str] = {}
    for root in project_roots:
        real = named[os.path.abspath(root)] = _resolved(root)
        # As it is written: where `link/..` leads, `abspath` does not tell.
        written = root if os.path.isabs(root) else os.path.join(os.getcwd(), root)
        record.note(question.real_path, written, real)
        record.note(question.exists, real, True)
    roots = tuple(dict.fromkeys(named.values()))
    is_usable = tmpdir is not None and tmpdir_problem(tmpdir, roots, record) is None
    return Surroundings(
        project_roots=roots,
        linked_roots=tuple((name, real) for name, real in named.items() if name != real),
        tmpdir=tmpdir.name if tmpdir is not None and is_usable else None,
        has_slash_tmp=record.ask(question.is_directory, SLASH_TMP),
        minimal=tuple(path for path in MINIMAL if record.ask(question.exists, path)) if needs_minimal else (),
        private=private,
        private_names=private_names,
        own=own,
        own_links=own_links,
        own_searched=own_searched,
        rules_directories=rules_directories,
    )


def _resolved(root: str) -> str:
    try:
        return real_path_there(root)
    except OSError as error:
        problem = "does not exist" if error.errno == errno.ENOENT else f"can't be used: {error.strerror}"
        raise ProfileRefused(f"the project root {root}", problem, "name a directory") from error
