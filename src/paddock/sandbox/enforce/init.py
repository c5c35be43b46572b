"""Writes the arguments of paddock-init, the first process of a sandbox. `report` reads what it reports.

The other side is native/init.c, which says what each word means and promises. The two are built and shipped
together: change both. The caller starts it: it opens `PATH` and lets bubblewrap execute the descriptor, so
that the command need not be able to see the program.
"""

from __future__ import annotations

from paddock.native_program import native_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Final

    from paddock.model.profile import Limits
    from paddock.sandbox.host.mounted_file import MountedFile
    from paddock.sandbox.plan.landlock import Ruleset
    from paddock.sandbox.plan.mount import Mask

PATH: Final = native_path("paddock-init")

WALL_LIMIT_STATUS: Final = 124
NOT_CONFINED_STATUS: Final = 125
NOT_EXECUTABLE_STATUS: Final = 126
NOT_FOUND_STATUS: Final = 127
"""Exit statuses of the init's own. A program may end with the same ones, so only a `Report` is certain."""


def words(
    *,
    limits: Limits | None = None,
    ruleset: Ruleset | None = None,
    argv0: str | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: str | None = None,
    mounted: Iterable[MountedFile] = (),
    masks: Iterable[Mask] = (),
    placeholders: Iterable[str] = (),
    holds: bool = False,
    is_isolated: bool = False,
) -> list[str]:
    """Return the words before `--` that tell the init how to confine a command.

    An init that `holds` its sandbox for others to enter has no command after `--`. One that `is_isolated`
    goes on only if no mount made elsewhere can appear in its sandbox; it needs a /proc to tell. The command
    gets exactly `environment`, and starts in `cwd` if that is not where bubblewrap puts it.
    """
    said: list[str] = []
    if limits is not None:
        said += [f"{name}={value}" for name, value in _limits(limits) if value is not None]
    if ruleset is not None:
        said.append(f"landlock={ruleset.handled:x}:{ruleset.ports:x}:{ruleset.scopes:x}")
        said += [f"allow={ruleset.handled:x}:{path}" for path in ruleset.writable]
    if argv0 is not None:
        said.append(f"argv0={argv0}")
    if environment is not None:
        said += [f"env={name}={value}" for name, value in environment.items()]
    if cwd is not None:
        said.append(f"cwd={cwd}")
    said += [f"mounted={file.device}:{file.inode}:{file.path}" for file in mounted]
    said += [f"{mask.kind}={mask.path}" for mask in masks]
    said += [f"placeholder={path}" for path in placeholders]
    if is_isolated:
        said.append("isolated=1")
    if holds:
        said.append("hold=1")
    return said


def descriptor_words(
    *,
    filter_fd: int | None = None,
    trace_fd: int | None = None,
    kept_fd: tuple[int, int] | None = None,
    wait_fd: int | None = None,
    report_fd: int | None = None,
    listening: tuple[int, Iterable[int]] | None = None,
    cgroup_fd: int | None = None,
    memory_fd: int | None = None,
    more_fd: int | None = None,
) -> list[str]:
    """Return the words that tell the init which descriptors it inherits, under these numbers.

    `filter_fd` is for a start without bubblewrap, which otherwise loads the filter itself. `trace_fd` is the
    socket of a `Tracer`. `kept_fd` is a descriptor for the command, and its number there. Through the socket
    `wait_fd` a command comes later (native/waiting.h) to an init that holds its sandbox. `listening` is a
    socket by which listeners go out, and their ports. `cgroup_fd` and `memory_fd` are the entrances of the
    control groups that the init enters with everything it starts. After `more_fd` nothing may follow: further
    words, `--` and the command are in that file, each ended by NUL.
    """
    way_out, ports = listening or (-1, ())
    said = {
        "seccomp": filter_fd,
        "trace": trace_fd,
        "keep": None if kept_fd is None else f"{kept_fd[0]}:{kept_fd[1]}",
        "wait": wait_fd,
        "report": report_fd,
        "cgroup": cgroup_fd,
        "memory": memory_fd,
    }
    return [
        *(f"{name}={value}" for name, value in said.items() if value is not None),
        *(f"listen={way_out}:{port}" for port in ports),
        *([] if more_fd is None else [f"more={more_fd}"]),
    ]


def bubblewrap_words(
    *,
    has_own_mounts: bool = False,
    early_fds: tuple[int, int, int] | None = None,
    has_ready_devices: bool = False,
    read_only: Iterable[str] = (),
) -> list[str]:
    """Return the words before `--` and a start of bubblewrap, for work that must be done first.

    `early_fds` are three files: the mounts to make first, bubblewrap's options after that, and all of its
    options.
    """
    return [
        *(["own-mounts=1"] if has_own_mounts else []),
        *([] if early_fds is None else [f"early-mounts={':'.join(map(str, early_fds))}"]),
        *(["devices=1"] if has_ready_devices else []),
        *(f"read-only={path}" for path in read_only),
    ]


def _limits(limits: Limits) -> Iterator[tuple[str, int | None]]:
    yield "as", limits.memory_bytes
    yield "cpu", limits.cpu_seconds
    yield "fsize", limits.file_bytes
    yield "nofile", limits.open_files
    yield "nproc", limits.processes
    yield "wall", limits.wall_seconds
