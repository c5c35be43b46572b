"""The meeting place of a user's servers and their operators: a private directory of socket files.

Every server puts one socket there. Its name holds the pid, for people, and a random
part, so that no two servers share a name and none is ever used again: a socket that
nobody listens on can be removed without a race. Servers do not use a directory that
another user could have prepared or could exchange. This module does not know what is
said over the sockets.
"""

from __future__ import annotations

import contextlib
import os
import stat

from paddock.errors import NoRuntimeDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Final

NAME: Final = "paddock"
VARIABLE: Final = "PADDOCK_RUNTIME_DIR"
"""Names the directory itself, for servers and operators that want one of their own."""
RUN_ROOT: Final = "/run/user"
"""Where login managers make a private directory for each user, even if a service is not told its path."""
SHARED_ROOT: Final = "/tmp"

_SOCKET_NAME: Final = r"(\d+)-[0-9a-f]{8}\.sock"
_CONSOLE_NAME: Final = r"(\d+)-[0-9a-f]{8}\.ask"
"""Of an agent that has questions, and is no server."""


def candidates(
    environment: Mapping[str, str],
    uid: int,
    *,
    run_root: str = RUN_ROOT,
    shared_root: str = SHARED_ROOT,
) -> list[str]:
    """Return the directories that a server of this user may choose, the best first.

    Servers and operators differ in environment, so operators look into all of them.
    """
    if environment.get(VARIABLE, "").startswith("/"):
        return [_tidy(environment[VARIABLE])]
    return _usual(environment, uid, run_root, shared_root)


def everywhere(
    environment: Mapping[str, str],
    uid: int,
    *,
    run_root: str = RUN_ROOT,
    shared_root: str = SHARED_ROOT,
) -> list[str]:
    """Return all directories that this user's servers or launchers may choose, with this environment or none.

    Code that confines commands hides all of them, and makes them before a command can: the next launcher may
    use another place than this one.
    """
    own = candidates(environment, uid, run_root=run_root, shared_root=shared_root)
    return list(dict.fromkeys((*own, *_usual(environment, uid, run_root, shared_root))))


def _usual(environment: Mapping[str, str], uid: int, run_root: str, shared_root: str) -> list[str]:
    found = []
    told = environment.get("XDG_RUNTIME_DIR", "")
    if told.startswith("/"):
        found.append(os.path.join(_tidy(told), NAME))
    own = os.path.join(run_root, str(uid))
    if os.path.isdir(own):
        found.append(os.path.join(own, NAME))
    found.append(os.path.join(shared_root, f"{NAME}-{uid}"))
    return list(dict.fromkeys(found))


def _tidy(path: str) -> str:
    """Write an absolute path in the one way that others write it. What `..` means is up to the kernel."""
    return "/" + "/".join(name for name in path.split("/") if name not in ("", "."))


def fault_of(directory: str, uid: int) -> str | None:
    """Return why a directory must not be used; None if only the user and root can put anything there.

    Raises OSError when it can't be looked at, FileNotFoundError when it is not there.
    """
    status = os.lstat(directory)
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory; remove it"
    if status.st_uid != uid:
        return f"it belongs to uid {status.st_uid}; somebody else made it"
    if mode & 0o077:
        return f"its mode is {mode:04o}, open to others; run `chmod 700 {directory}`"
    return _fault_of_parent(os.path.dirname(directory), uid)


def _fault_of_parent(parent: str, uid: int) -> str | None:
    # A user who may rename entries of the parent could replace the checked directory with another.
    status = os.stat(parent)
    if status.st_uid not in (uid, 0):
        return f"{parent} belongs to uid {status.st_uid}"
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        return f"{parent} can be written by others and is not sticky"
    return None


def provide(directories: list[str], uid: int) -> str:
    """Provide the first of the directories that can be used, made if need be. Raises NoRuntimeDirectory."""
    problems = []
    for directory in directories:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory, 0o700)
            problem = fault_of(directory, uid)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
        if problem is None:
            return directory
        problems.append(f"{directory}: {problem}")
    raise NoRuntimeDirectory("; ".join(problems))


def reserve(directories: list[str], uid: int) -> None:
    """Make those of the directories that are missing and can be made, before a command makes one for us."""
    for directory in directories:
        with contextlib.suppress(NoRuntimeDirectory):
            provide([directory], uid)


def trusted(directories: list[str], uid: int) -> list[Path]:
    """Return those of the directories that are there and can be trusted."""
    from pathlib import Path

    good = []
    for directory in directories:
        with contextlib.suppress(OSError):
            if fault_of(directory, uid) is None:
                good.append(Path(directory))
    return good


def new_socket_path(directory: str | os.PathLike[str]) -> str:
    """Return a name for the socket of this process that no other socket has had or will have."""
    return os.path.join(directory, f"{os.getpid()}-{os.urandom(4).hex()}.sock")


def new_console_path(directory: Path) -> Path:
    """Return a name for the socket at which this process gets answers, as unique as a server's."""
    return directory / f"{os.getpid()}-{os.urandom(4).hex()}.ask"


def console_paths(directory: Path) -> list[Path]:
    """Return the sockets of agents with questions, alive or dead, in the order of their names."""
    import re

    return sorted(path for path in directory.iterdir() if re.fullmatch(_CONSOLE_NAME, path.name))


def socket_paths(directory: Path) -> list[Path]:
    """Return the sockets of servers, alive or dead, in the order of their names."""
    return sorted(path for path in directory.iterdir() if pid_of(path) is not None)


def pid_of(path: str | os.PathLike[str]) -> int | None:
    """Return the server's process id, as its own pid namespace knows it; None for a file of another kind."""
    import re

    match = re.fullmatch(_SOCKET_NAME, os.path.basename(path))
    return int(match[1]) if match else None


def remove_stale(directory: str | os.PathLike[str]) -> None:
    """Remove the sockets of dead servers. Costs next to nothing while all of them live."""
    # A command that has no sockets, and only needs a private directory, does without asyncio and TLS.
    from paddock.transport.unix import is_alive

    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        pid = pid_of(path)
        # A pid that is not here may still live in another pid namespace that shares the directory, so the
        # socket has the last word; one that is here spares a server the work of accepting a probe.
        if pid is not None and not _is_process(pid):
            with contextlib.suppress(OSError):
                if not is_alive(path):
                    discard(path)


def discard(path: str | os.PathLike[str]) -> None:
    """Remove a socket that nobody listens on. Nobody ever will again, because each name is used once."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def _is_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
