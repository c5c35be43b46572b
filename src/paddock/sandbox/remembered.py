"""Remembers how a sandbox was made, so that the next process need not plan the same one again.

A plan is a pure function of a profile and of what the host looks like. A command line that starts one
command takes ten times as long to load what plans as to plan. So the first one leaves, in the private
directory of its user, what it told bubblewrap and the init, together with every question that it asked the
host, and the answer. The next one asks the same questions. Only if all answers are the same does it use what
was told; otherwise it plans, and leaves that instead. So this decides nothing, and `launch` is the reference.

What a question could not tell is in the `Scene`: who the process is, how it was started, and which kernel it
runs on. The files that Paddock's code consists of are among the questions.

Whoever can write the private directory decides how tight a sandbox is: every plan hides it. This imports next
to nothing.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import stat
import sys
import time

from paddock import own_program
from paddock.native_program import native_path
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.confined import Confined, Readers
from paddock.sandbox.enforce.janitor import Janitor, PlaceholderTaken, identify, lock
from paddock.sandbox.enforce.recipe import Opened, Recipe, told_of
from paddock.sandbox.enforce.unreadable import NAME as UNREADABLE
from paddock.sandbox.host import question
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import LocatedPlaceholder
from paddock.sandbox.profile.path import parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Final

    from paddock.sandbox.enforce.held_script import HeldScript
    from paddock.sandbox.host.lookup_record import LookupRecord

DIRECTORY: Final = "starts"
"""Directory of the files, one for each working directory, in the private one."""

FILES_LIMIT: Final = 64
ENTRIES_LIMIT: Final = 4
"""Profiles and environments in one working directory. The oldest goes first."""

UNFINISHED_BYTES: Final = 8
"""Random bytes in the name of a file that is not yet complete: no two alike in practice. One that a killed
process left counts among the files, and goes when it is the oldest."""

SIZE_LIMIT_BYTES: Final = 1 << 19
"""What takes longer to read than to plan is not kept. Most sandboxes take 25 KiB."""

STARTING_TIME_NS: Final = 2_000_000_000
"""In which this process has certainly begun to import what plans."""

_VARIABLES: Final = ("PATH", "HOME", "TMPDIR")
_PREFIXES: Final = ("PADDOCK_", "XDG_", "PYTHON")
"""Variables that may decide what is planned; a test finds out which ones are read."""

_KERNEL_FILES: Final = ("/proc/sys/kernel/random/boot_id", "/proc/self/uid_map", "/proc/self/gid_map")
_SECCOMP: Final = b"Seccomp"

_ANSWERING: Final = {
    each.__name__: each
    for each in (
        question.status,
        question.real_path,
        question.real_directories,
        question.exists,
        question.is_directory,
        question.is_empty,
        question.is_open,
        question.is_private_or_sticky,
        question.can_grow,
        question.pointer,
        question.settings,
        question.is_git_directory,
        question.file_stamp,
        question.identity,
        question.is_changeable_elsewhere,
        question.mount_table,
        question.closed_files,
        question.owned_nodes,
        question.installed_files,
        question.program,
        question.several_names,
        question.version,
    )
}
"""Questions by the name under which they are kept."""


class Scene:
    """Where a start takes place: a working directory, and what no question about a path can tell."""

    def __init__(self, wanted: Sequence[object], directory: str, private: Sequence[str]) -> None:
        """`wanted` is all that is asked for besides a command and its variables. `directory` is the private
        one, which is hidden from every command like all the `private` ones. Raises OSError.
        """
        self._made_ns = time.time_ns()
        self.cwd = os.getcwd()
        here = os.stat(".")
        self.directory = directory
        self._file = os.path.join(directory, DIRECTORY, f"{here.st_dev:x}-{here.st_ino:x}")
        self.facts = (
            # Whoever reads an entry is the one that wrote it.
            (question.version(__file__), question.version(question.__file__)),
            (self.cwd, here.st_dev, here.st_ino, directory, *private),
            tuple(wanted),
            (sys.version, sys.executable, sys.prefix, sys.base_prefix, sys.getfilesystemencoding()),
            (*sys.path, *sys.flags),
            (os.geteuid(), os.getuid(), os.getegid(), *os.getgroups()),
            (*os.uname(), *(question.beginning_of(path) for path in _KERNEL_FILES), *_filters()),
            tuple(sorted(_deciding_variables(os.environ))),
        )

    def is_younger_than(self, version: tuple[int, ...] | None) -> bool:
        """Return whether a file of this `question.version` certainly was so when this process started."""
        return version is None or version[-1] < self._made_ns - STARTING_TIME_NS

    def read(self) -> list[tuple[tuple[object, ...], dict[str, Any]]]:
        """Return what is remembered about this directory, by facts."""
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
            file = os.open(self._file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                # Whoever else could have written it could have chosen the sandbox.
                found = os.fstat(file)
                if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o600:
                    return [(facts, entry) for facts, entry in marshal.loads(os.read(file, SIZE_LIMIT_BYTES))]
            finally:
                os.close(file)
        return []

    def write(self, entries: Sequence[tuple[tuple[object, ...], dict[str, Any]]]) -> None:
        """Remember this instead. Raises OSError."""
        content = marshal.dumps(list(entries))
        if len(content) >= SIZE_LIMIT_BYTES:
            return
        directory = os.path.dirname(self._file)
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        _forget_old_ones(directory)
        # Not the pid: where that is always the same (a container), a killed writer would stop all others.
        unfinished = f"{self._file}.{os.urandom(UNFINISHED_BYTES).hex()}"
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                os.fchmod(file, 0o600)
                if os.write(file, content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(file)
            # Another process reads the old or the new one, never half of it.
            os.rename(unfinished, self._file)
        except OSError:
            os.unlink(unfinished)
            raise


class Remembered:
    """A sandbox that was made in a scene, and would be made in the very same way now."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self._recipe = Recipe(**entry["recipe"])
        self._cwd: str = entry["cwd"]
        self._program: str = entry["program"]
        self._placeholders = [LocatedPlaceholder(*values) for values in entry["placeholders"]]
        self._covered: frozenset[str] = frozenset(entry["covered"])
        self._shown: tuple[str, ...] = entry["shown"]
        self._grants: dict[str, bool] = entry["grants"]
        self._mounted = [MountedFile(*file) for file in entry["mounted"]]
        self._uncertain: tuple[str, ...] = entry["uncertain"]

    def prepare(
        self, argv: Sequence[str], environment: Mapping[str, str], janitor: Janitor
    ) -> Confined | None:
        """Make a command ready to start; None if that takes another plan.

        Raises OSError, ProfileRefused as `hold_script`, or as a janitor.
        """
        bubblewrap = _opened_program(self._program)
        if bubblewrap is None:
            return None
        with contextlib.ExitStack() as undone:
            try:
                janitor.hold(self._placeholders)
                undone.callback(janitor.release, self._placeholders, was_killed=False)
                if self._uncertain:
                    # On most hosts there is nothing to ask, and to load what asks takes a while.
                    from paddock.sandbox.host.letter_case import refuse_other_spellings

                    refuse_other_spellings(self._uncertain)
                locks = lock([each for each in self._placeholders if each.path in self._covered])
                for file in locks:
                    undone.callback(os.close, file)
                mounted = [*self._mounted, *identify(self._shown)]
            except PlaceholderTaken:
                return None
            confined = self._assembled(
                bubblewrap, told_of(argv, environment, self._cwd), janitor, mounted, locks
            )
            undone.pop_all()
        return confined

    def _assembled(
        self,
        bubblewrap: int,
        told: Sequence[str],
        janitor: Janitor,
        mounted: Sequence[MountedFile],
        locks: Sequence[int],
    ) -> Confined:
        with Opened() as opened:
            files, readers = self._recipe.files(opened, bubblewrap, told, mounted)
            opened.pop_all()

        def words(numbers: Sequence[int]) -> list[str]:
            at = dict(zip(files, numbers, strict=False))
            descriptors = init.descriptor_words(report_fd=at["report"], more_fd=at["more"])
            return self._recipe.argv(self._program, at, descriptors=descriptors)

        return Confined(
            words,
            [*files.values(), *locks],
            janitor=janitor,
            placeholders=self._placeholders,
            readers=Readers(*readers),
            grants=self._grants,
        )


def recall(scene: Scene, janitor: Janitor) -> Remembered | None:
    """Return what is remembered of a scene, if a sandbox made now would be the same. Raises OSError.

    Starts the janitor that it will need.
    """
    for facts, entry in scene.read():
        if facts == scene.facts:
            if entry["placeholders"]:
                janitor.prepare()
            return Remembered(entry) if _holds(entry) else None
    return None


def keep(scene: Scene, held: HeldScript, lookups: LookupRecord, program: str, *, is_whole: bool) -> None:
    """Remember how a sandbox was made, in which a command runs by now. Raises OSError.

    The `scene` is from before its plan, `lookups` are the questions behind that, and `program` is the
    bubblewrap that makes it. `is_whole` says that nothing was missing to enforce everything.
    """
    # What one filter takes away, another that looks the same may allow.
    if not is_whole and _has_filter():
        return
    script, plan = held.script, held.script.plan
    limits = script.limits
    # A control group is made for one command.
    has_group = script.counted_processes is not None or limits.total_memory_bytes is not None
    if not lookups.is_complete or has_group or script.restriction is not None or plan.cwd != scene.cwd:
        return
    # What an installer has just written decides about the next plan, and may not have about this one.
    code = [*_asked(question.version, _code())]
    if not all(scene.is_younger_than(version) for _, _, version in code):
        return
    unreadable = os.path.join(scene.directory, UNREADABLE)
    made = {placeholder.path for placeholder in held.placeholders}
    located = {(parent(each.path), each.device, each.inode) for each in held.placeholders}
    searched = [(path, answer) for asked, path, answer in lookups if asked is question.own_names_in]
    others = [each for each in lookups if each[0] is not question.own_names_in]
    answers: list[tuple[str, str, object]] = [
        *((asked.__name__, path, answer) for asked, path, answer in others),
        *(("identity", file.path, (file.device, file.inode)) for file in held.found),
        *(("identity", path, (device, inode)) for path, device, inode in located),
        *_asked(question.program, ("bwrap", "rg")),
        *_asked(question.status, (unreadable,)),
        *_asked(question.version, (unreadable,)),
        *code,
        *_asked(question.is_changeable_elsewhere, _library()),
    ]
    entry = {
        "answers": answers,
        "searched": searched,
        "vacant": plan.own_placeholders,
        "grants": plan.grants,
        "recipe": script.recipe.plain(),
        "cwd": plan.cwd,
        "program": program,
        "placeholders": [each.values for each in held.placeholders],
        "covered": plan.covered_placeholders,
        "shown": tuple(file.path for file in held.shown if file.path in made),
        "mounted": [(file.path, file.device, file.inode) for file in held.found],
        "uncertain": plan.uncertain_paths,
    }
    # Some were asked earlier than others, and the files may have changed in between.
    if _holds(entry):
        known = [(facts, other) for facts, other in scene.read() if facts != scene.facts]
        scene.write([(scene.facts, entry), *known[: ENTRIES_LIMIT - 1]])


def _holds(entry: dict[str, Any]) -> bool:
    """Ask everything again, and return whether a plan would be the same. A failure is a difference."""
    from paddock.errors import ProfileRefused

    vacant = entry["vacant"]
    try:
        for path, answer in entry["searched"]:
            if not question.has_names_in(path, answer, vacant):
                return False
        for name, path, answer in entry["answers"]:
            found = _ANSWERING[name](path)
            if found != answer and not (
                name == question.status.__name__
                and path in vacant
                and question.is_vacant(vacant[path], found)
                and question.is_vacant(vacant[path], answer)
            ):
                return False
    except (OSError, ProfileRefused):
        return False
    return True


def _asked(ask: Any, paths: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    return ((ask.__name__, path, ask(path)) for path in paths)


def _opened_program(path: str) -> int | None:
    """Return the descriptor of a bubblewrap that `question.program` has found."""
    found = own_program.find("bwrap", own_program.search_path())
    return next((each.fd for each in (*found.system, *found.others) if each.path == path), None)


def _code() -> tuple[str, ...]:
    """Return the files of Paddock's own that have decided so far."""
    modules = [
        file
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "paddock" and (file := getattr(module, "__file__", None))
    ]
    return (*modules, *map(native_path, (*own_program.NATIVE, "bwrap")))


def _library() -> tuple[str, ...]:
    """Return the files of the standard library that `installation` has looked at."""
    library = os.path.dirname(os.__file__)
    loaded = (getattr(module, "__file__", None) or "" for module in list(sys.modules.values()))
    return tuple(path for path in loaded if path.startswith(f"{library}/"))


def _filters() -> list[bytes]:
    """Return this process's filters of system calls, which may refuse Landlock or namespaces."""
    lines = question.beginning_of("/proc/self/status").splitlines()
    return [line for line in lines if line.startswith(_SECCOMP)]


def _has_filter() -> bool:
    return any(line.split()[-1] != b"0" for line in _filters())


def _deciding_variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if name in _VARIABLES or name.startswith(_PREFIXES):
            yield name, value


def _forget_old_ones(directory: str) -> None:
    """Make room for another file. Other processes may do so at the same time."""
    names = os.listdir(directory)
    if len(names) < FILES_LIMIT:
        return
    changed = []
    for name in names:
        path = os.path.join(directory, name)
        with contextlib.suppress(FileNotFoundError):
            changed.append((os.lstat(path).st_mtime_ns, path))
    for _, path in sorted(changed)[: len(names) - FILES_LIMIT + 1]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
