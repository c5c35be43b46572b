"""What bubblewrap and paddock-init are told because of a plan alone, as plain data.

A recipe can be kept for the next process that would make the same plan. The command, and the numbers that
descriptors have, are added here when it is started.
"""

from __future__ import annotations

import contextlib
import os
import sys

from paddock import own_program
from paddock.c_string import c_strings
from paddock.memory_file import memory_file
from paddock.sandbox.enforce import init

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from paddock.sandbox.host.mounted_file import MountedFile


class Recipe:
    """The arguments for bubblewrap and paddock-init, except for the command and descriptor numbers."""

    __slots__ = (
        "all_options",
        "early",
        "filter",
        "has_ready_devices",
        "needs_own_mounts",
        "options",
        "path_of_init",
        "read_only",
        "said",
    )

    def __init__(
        self,
        *,
        options: bytes,
        all_options: bytes,
        early: bytes,
        filter: bytes,
        said: Sequence[str],
        needs_own_mounts: bool,
        has_ready_devices: bool,
        read_only: Sequence[str],
        path_of_init: str | None,
    ) -> None:
        self.options = options
        """For bubblewrap."""
        self.all_options = all_options
        """The same where nothing can be mounted early."""
        self.early = early
        """Mounts to make before bubblewrap starts, if possible; empty for none."""
        self.filter = filter
        """For bubblewrap to load."""
        self.said = tuple(said)
        """For paddock-init."""
        self.needs_own_mounts = needs_own_mounts
        """Whether bubblewrap must start with mounts that differ from this process's own."""
        self.has_ready_devices = has_ready_devices
        """Whether its devices must exist before the view is built."""
        self.read_only = tuple(read_only)
        """Host paths that must be read-only before."""
        self.path_of_init = path_of_init
        """Where the view shows paddock-init; None if it is executed by its descriptor."""

    def plain(self) -> dict[str, Any]:
        """Return the arguments that make an equal recipe, in types that `marshal` knows."""
        return {name: getattr(self, name) for name in self.__slots__}

    def files(
        self, opened: Opened, bubblewrap: int | None, told: Sequence[str], mounted: Iterable[MountedFile]
    ) -> tuple[dict[str, int], tuple[int, int]]:
        """Return what a start inherits, as descriptors by name: programs, arguments, writers of pipes. Return
        also the readers: of the init's reports, and of the pid of the first process.

        `told` is for the init besides what is `said`: the command at its end. `mounted` lists the files that
        the mounts must show.
        """
        words = [*init.words(mounted=mounted), *self.said, *told]
        files = {
            "options": opened.memory("options", self.options),
            "filter": opened.memory("filter", self.filter),
            "init": opened.own(os.dup(own_program.opened(init.PATH))),
            "more": opened.memory("command", strings(words)),
        }
        if bubblewrap is not None:
            # This is the descriptor that was examined; its path may name another file by now.
            files["bubblewrap"] = opened.own(os.dup(bubblewrap))
        if self.early:
            files["early-mounts"] = opened.memory("early-mounts", self.early)
            files["all options"] = opened.memory("options", self.all_options)
        pid_reader, pid_writer = opened.pipe()
        report_reader, report_writer = opened.pipe()
        # bubblewrap must be able to write the pid even if we are killed, or its child would wait for ever.
        files |= {"pid": pid_writer, "pid reader": opened.own(os.dup(pid_reader)), "report": report_writer}
        return files, (report_reader, pid_reader)

    def argv(
        self,
        bubblewrap: str,
        at: Mapping[str, int],
        *,
        before: Sequence[str] = (),
        options: Sequence[str] = (),
        descriptors: Sequence[str],
    ) -> list[str]:
        """Return the arguments of a start; `at` maps each descriptor's name to its number.

        `before` is a program that starts the others, `options` are more for bubblewrap, and `descriptors` are
        words for the init.
        """
        early = (at["early-mounts"], at["options"], at["all options"]) if self.early else None
        prepared = init.bubblewrap_words(
            has_own_mounts=self.needs_own_mounts,
            early_fds=early,
            has_ready_devices=self.has_ready_devices,
            read_only=self.read_only,
        )
        by_descriptor = f"/proc/self/fd/{at['init']}"
        return [
            *before,
            *((by_descriptor, *prepared, "--") if prepared else ()),
            f"/proc/self/fd/{at['bubblewrap']}" if "bubblewrap" in at else bubblewrap,
            *("--args", str(at["options"])),
            *options,
            *("--seccomp", str(at["filter"]), "--info-fd", str(at["pid"])),
            *("--", by_descriptor if self.path_of_init is None else self.path_of_init),
            *descriptors,
        ]


class Opened(contextlib.ExitStack):
    """Closes its descriptors at the end of the block, unless `pop_all` hands them to an owner.

    The system may run out of descriptors at any point in between.
    """

    def own(self, file: int) -> int:
        """Close a descriptor at the end."""
        self.callback(os.close, file)
        return file

    def pipe(self) -> tuple[int, int]:
        """Return the reader and the writer of a new pipe."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        return self.own(reader), self.own(writer)

    def pair(self) -> tuple[int, int]:
        """Return two connected sockets for packets."""
        import socket

        ours, theirs = (end.detach() for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        return self.own(ours), self.own(theirs)

    def memory(self, name: str, content: bytes) -> int:
        """Return a file in memory, positioned at its beginning."""
        return self.own(memory_file(f"paddock-{name}", content))


def told_of(
    argv: Sequence[str], environment: Mapping[str, str], cwd: str, arg0: str | None = None
) -> list[str]:
    """Return what the init is told of a command that starts in `cwd`."""
    # bubblewrap would set PWD, but does not know the command's variables.
    return [*init.words(argv0=arg0, environment={**environment, "PWD": cwd}), "--", *argv]


def strings(words: Sequence[str]) -> bytes:
    """Encode words for a program in C. Raises ProfileRefused for one that can't be a string there."""
    try:
        return c_strings(words, sys.getfilesystemencoding())
    except ValueError as error:
        from paddock.errors import ProfileRefused

        # The command's arguments and the profile's paths were checked where they came in.
        raise ProfileRefused("what the init is told", str(error), "leave it out") from error
