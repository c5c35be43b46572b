"""Programs that Paddock runs for itself, outside of any sandbox.

This is the place where one rule can be seen to hold: **nothing that a client or a command
controls acts on a program or a path of ours before, or outside of, confinement.** All code
that starts a helper (bubblewrap, the init, the janitor, the spawner, ripgrep, a file worker, the
evaluator of rules) starts it with the environment from here and nothing else. The arguments and
variables of a command travel to the first process inside its sandbox as data.

Programs on PATH are taken from directories of the system before all others, and only from where
nobody but root and this user can put anything. They are opened once, and executed through that
descriptor, whatever has their name later. Our own programs are opened once as well. A helper
in Python imports from our installation and the standard library alone. `installation` finds
which of these files a command could write; every plan keeps them read-only.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import ExitStack, suppress
from functools import cache
from types import MappingProxyType

from paddock import installation
from paddock.native_program import native_path
from paddock.shortage import raise_if_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Final

SEARCH_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a helper may look for programs: directories of root on every system we know."""

ROOT: Final = "/"
"""Where every helper starts: no command can move it, put files in it or take it away."""

SYSTEM_PATH: Final = f"{SEARCH_PATH}:/run/current-system/sw/bin"
"""Directories of the system, where no profile should let a command write: the same, and that of NixOS."""

_ENVIRONMENT: Final = {"PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8"}
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_ALL_USERS: Final = [b"0", b"0", b"4294967295"]
"""The content of /proc/self/uid_map in the first user namespace."""
_OVERFLOW_USER: Final = 65534
"""The owner that a user namespace shows for files whose owner has no id in it (user_namespaces(7))."""

NATIVE: Final = (
    "paddock-execve-wrapper",
    "paddock-init",
    "paddock-janitor",
    "paddock-leader",
    "paddock-spawner",
    "paddock-stub",
    "paddock-worker.so",
)
"""Our own programs that are not in Python."""


def own_environment() -> dict[str, str]:
    """Return the environment of every helper: constants, with nobody's LD_PRELOAD or PYTHONPATH in them."""
    return dict(_ENVIRONMENT)


# --- programs of the system -------------------------------------------------


class Program:
    """A program that was opened where nobody but root and this user can put anything.

    It stays open for as long as this process lives. To run it, execute `command` and let the child inherit
    `fd`.
    """

    __slots__ = ("fd", "path", "status")

    def __init__(self, path: str, fd: int, status: os.stat_result) -> None:
        self.path = path
        """Absolute, without symbolic links."""
        self.fd = fd
        self.status = status

    @property
    def command(self) -> str:
        """Return what to execute, in a process that has inherited the descriptor under its number."""
        return f"/proc/self/fd/{self.fd}"


class Untrusted(Exception):
    """Another user could have put the program there, or could exchange it."""


class Found:
    """The outcome of the search for a program on PATH, in the order of PATH."""

    __slots__ = ("others", "passed_over", "system")

    def __init__(
        self, system: tuple[Program, ...], others: tuple[Program, ...], passed_over: tuple[str, ...]
    ) -> None:
        self.system = system
        """Those in directories of the system."""
        self.others = others
        """Those elsewhere, where an earlier command may have had write access."""
        self.passed_over = passed_over
        """Programs that other users could have put there: the path and the reason."""


def find(name: str, search_path: str) -> Found:
    """Open every program of this name on a search path, each once.

    Keeps the answer: this process never finds a program that is put there later. Raises OSError for want of
    descriptors or memory, and then keeps nothing.
    """
    return _find(name, search_path, SYSTEM_PATH)


def outside(programs: Iterable[Program], directories: Iterable[str]) -> Iterator[Program]:
    """Yield the programs that are not below any of these directories, where commands can write."""
    closed = [os.path.realpath(directory) for directory in directories]
    for program in programs:
        # Everything is below the root, and a server may well be started there.
        if not any(each != "/" and _is_within(program.path, each) for each in closed):
            yield program


def search_path() -> str:
    """Return the PATH of this process."""
    return os.environ.get("PATH", os.defpath)


@cache
def _find(name: str, search_path: str, system_path: str) -> Found:
    with ExitStack() as opened:
        known: dict[str, Program] = {}
        if search_path != system_path:
            known = {each.path: each for each in _opened_in(name, system_path, opened)[0]}
        programs, passed_over = _opened_in(name, search_path, opened, known)
        opened.pop_all()
    if search_path == system_path:
        known = {program.path: program for program in programs}
    system = tuple(program for program in programs if program.path in known)
    others = tuple(program for program in programs if program.path not in known)
    return Found(system, others, passed_over)


def _opened_in(
    name: str, search_path: str, opened: ExitStack, known: Mapping[str, Program] = MappingProxyType({})
) -> tuple[tuple[Program, ...], tuple[str, ...]]:
    """Open the programs of this name in some directories, except those that are `known`.

    `opened` closes them. Raises OSError for want of descriptors or memory.
    """
    found: dict[str, Program] = {}
    passed_over: list[str] = []
    for directory in search_path.split(os.pathsep):
        # A relative element, including an empty one, depends on the working directory.
        if not directory.startswith("/"):
            continue
        path = os.path.join(directory, name)
        # Most directories do not have it, and to check the way to one takes many calls.
        if not os.path.lexists(path):
            continue
        real = os.path.realpath(path)
        if real in known or real in found:
            # It does not matter who made the link: it leads to a program that the search takes anyway.
            found.setdefault(real, known.get(real) or found[real])
            continue
        try:
            program = _open(path)
        except OSError as error:
            raise_if_short(error)
            continue
        except Untrusted as error:
            passed_over.append(f"{path}: {error}")
            continue
        if program is not None:
            opened.callback(os.close, program.fd)
            found[program.path] = program
    return tuple(found.values()), tuple(passed_over)


def _open(path: str) -> Program | None:
    """Open a program, and check everything on the way to it; None if it is no program. Raises Untrusted."""
    with _Walk() as walk:
        walk.follow(path)
        status = os.fstat(walk.file)
        if not stat.S_ISREG(status.st_mode) or not os.access(f"/proc/self/fd/{walk.file}", os.X_OK):
            return None
        walk.check_file(status)
        return Program(walk.path, os.dup(walk.file), status)


class _Walk:
    """Goes from the root to a file, and refuses every step that another user could have made.

    It goes from descriptor to descriptor, so that it opens exactly what it checked.
    """

    def __init__(self) -> None:
        self._owners = _trusted_owners()
        self._names = [""]
        self._files = [os.open("/", os.O_PATH | os.O_CLOEXEC)]
        self._statuses = [os.fstat(self._files[0])]

    def __enter__(self) -> _Walk:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            os.close(file)

    @property
    def path(self) -> str:
        """Return the present path, without links."""
        return "/".join(self._names) or "/"

    @property
    def file(self) -> int:
        """Return a descriptor of what is there (O_PATH)."""
        return self._files[-1]

    def follow(self, path: str) -> None:
        """Go there from the root. Raises OSError and Untrusted."""
        names = _reversed_names(path)
        links = 0
        while names:
            name = names.pop()
            if name == "..":
                self._leave()
                continue
            if not stat.S_ISDIR(self._statuses[-1].st_mode):
                raise NotADirectoryError(self.path)
            self._check_directory()
            self._enter(name)
            if not stat.S_ISLNK(self._statuses[-1].st_mode):
                continue
            self._check_owner()
            links += 1
            if links > installation.LINK_LIMIT:
                raise Untrusted(f"{self.path} is a circular link")
            target = os.readlink("", dir_fd=self.file)
            self._leave()
            while target.startswith("/") and len(self._files) > 1:
                self._leave()
            names += _reversed_names(target)

    def check_file(self, status: os.stat_result) -> None:
        """Refuse a file that others can write, or could have put there under a name of their own."""
        self._check_owner()
        if status.st_mode & _OTHERS_WRITE:
            raise Untrusted(f"it can be written by others (mode {stat.S_IMODE(status.st_mode):04o})")
        # Of a file that belongs to root anybody can make another name in a sticky directory. Of a directory
        # nobody can.
        if self._statuses[-2].st_mode & _OTHERS_WRITE:
            raise Untrusted("its directory can be written by others")

    def _enter(self, name: str) -> None:
        file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.file)
        self._names.append(name)
        self._files.append(file)
        self._statuses.append(os.fstat(file))

    def _leave(self) -> None:
        if len(self._files) > 1:
            self._names.pop()
            self._statuses.pop()
            os.close(self._files.pop())

    def _check_owner(self) -> None:
        owner = self._statuses[-1].st_uid
        if owner not in self._owners:
            raise Untrusted(f"{self.path} belongs to uid {owner}")

    def _check_directory(self) -> None:
        self._check_owner()
        mode = self._statuses[-1].st_mode
        if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
            raise Untrusted(f"{self.path} can be written by others (mode {stat.S_IMODE(mode):04o})")


def is_private_or_sticky(directory: str) -> bool:
    """Return whether other users can neither make nor exchange what this user has in a directory.

    Raises OSError for want of descriptors or memory.
    """
    try:
        status = os.stat(directory)
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return False
    if status.st_mode & stat.S_ISVTX and status.st_mode & _OTHERS_WRITE:
        return status.st_uid in _trusted_owners()
    if status.st_mode & stat.S_IWOTH or status.st_uid != os.geteuid():
        return False
    return not status.st_mode & stat.S_IWGRP or (
        is_private_group(status.st_gid, status.st_uid) and not _has_access_list(directory)
    )


def is_private_group(group: int, user: int) -> bool:
    """Return whether a group is the user's own and has nobody else in it, as where the umask is 002."""
    import grp
    import pwd

    try:
        found, owner = grp.getgrgid(group), pwd.getpwuid(user)
    except KeyError:
        return False
    return (
        (found.gr_name, group) == (owner.pw_name, owner.pw_gid)
        and set(found.gr_mem) <= {owner.pw_name}
        and all(entry.pw_gid != group or entry.pw_uid == user for entry in pwd.getpwall())
    )


def _has_access_list(path: str) -> bool:
    """Return whether an access list grants something to users whom the mode does not cover (acl(5))."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)


def _trusted_owners() -> frozenset[int]:
    # The owner of the root directory can exchange everything.
    owners = {0, os.geteuid(), os.stat("/").st_uid}
    if not _is_first_user_namespace():
        owners.add(_OVERFLOW_USER)
    return frozenset(owners)


def _is_first_user_namespace() -> bool:
    try:
        # In bytes: a worker inside a sandbox can't load the codec of a text.
        with open("/proc/self/uid_map", "rb") as file:
            return file.read().split() == _ALL_USERS
    except OSError as error:
        raise_if_short(error)
        return True


def _reversed_names(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


# --- our own programs -------------------------------------------------------

_opened: Final[dict[str, int]] = {}


def opened(path: str | os.PathLike[str]) -> int:
    """Return a descriptor of a program of our own, the same one for as long as this process lives.

    Raises OSError. Paddock always executes the file that it opened first, whatever has its name later.
    """
    name = os.fspath(path)
    known = _opened.get(name)
    if known is not None:
        return known
    file = os.open(name, os.O_PATH | os.O_CLOEXEC)
    known = _opened.setdefault(name, file)
    if known != file:
        # Another thread was faster.
        os.close(file)
    return known


def open_all() -> None:
    """Open every program that will be needed, before a command has had a chance to change one.

    A missing program is an error only for the code that needs it.
    """
    for name in NATIVE:
        with suppress(OSError):
            opened(native_path(name))
    with suppress(OSError):
        python()
    for name in ("bwrap", "rg"):
        with suppress(OSError):
            find(name, search_path())


def python_command(module: str, *arguments: str, confines: bool = False) -> list[str]:
    """Return the argument list of a helper in Python: the function `main` of one of our modules.

    Neither the environment nor the working directory decides where it imports from, nor do other packages
    that are installed beside ours. Without the module `site`, no `.pth` file leads it into a project, where
    a command could have put a `sitecustomize`. A helper that `confines` commands also gets the list of
    Paddock's files here, which it can't find itself.
    """
    path, argv = installation.import_path(), ["paddock", *arguments]
    keeping = ""
    if confines:
        names, searched = installation.names(), list(installation.searched())
        kept = names, searched, installation.concealed()
        keeping = f"from paddock.installation import take_over; take_over(*{kept!r}); "
    code = (
        f"import sys; sys.path[:] = {path!r}; sys.argv[:] = {argv!r}; "
        f"{keeping}from {module} import main; sys.exit(main())"
    )
    # By this name the interpreter finds its library: a command could have replaced a link on the way by now.
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", code]


def python() -> int:
    """Return a descriptor of the interpreter that runs this process."""
    return opened(os.path.realpath(sys.executable))


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")
