"""From a plan to a command that can be started.

`Sandbox` prepares commands; it starts nothing itself, because the command line and
the server start programs in different ways. What it gives is data: an argument list
and the descriptors that the program must inherit. Whoever starts it tells when it
has ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

import msgspec

from paddock.errors import ProfileRefused, SandboxUnavailable
from paddock.model.host import Bubblewrap, Enforcement, HostFacts
from paddock.model.profile import (
    Access,
    DisabledProfile,
    ExternalProfile,
    Limits,
    ManagedProfile,
    NetworkMode,
    Profile,
    RestrictedFileSystem,
    UnrestrictedFileSystem,
)
from paddock.sandbox import bwrap, init, landlock, probe, seccomp
from paddock.sandbox.facts import FileFacts, surroundings_of
from paddock.sandbox.glob_scan import Scanner
from paddock.sandbox.janitor import Janitor, PlaceTaken
from paddock.sandbox.plan import Plan, Scene, confine, grants_of
from paddock.sandbox.unreadable import unreadable_file
from paddock.sandbox.view import INIT

ATTEMPTS: Final = 5
"""Plans for one command. A new one is made when something appears where the last wanted to hold a place."""

_PID_REPORT_BYTES: Final = 4096
"""What bubblewrap tells of the sandbox is a JSON object of about 200 bytes, written at once."""

FdWords = Callable[[Sequence[int]], list[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """What is to be run, and where."""

    argv: Sequence[str]
    cwd: str
    """Absolute."""
    project_roots: tuple[str, ...]
    environment: Mapping[str, str]
    """That of the command. It is not passed on here, only asked for TMPDIR."""


class Confined:
    """A command that is ready to be started in its sandbox, once.

    Start `argv(numbers)` so that the descriptors `files` have those numbers there and no
    others are inherited but the standard ones; then call `started`, and `ended` when it
    is gone. If it can't be started, call both all the same.
    """

    def __init__(
        self,
        words: FdWords,
        files: Sequence[int],
        enforcement: Enforcement,
        plan: Plan | None = None,
        janitor: Janitor | None = None,
        pid_reader: int | None = None,
    ) -> None:
        self._words = words
        self.files = tuple(files)
        self.enforcement = enforcement
        self.plan = plan
        self._janitor = janitor
        self._pid_reader = pid_reader
        self._first_pid: int | None = None

    def argv(self, numbers: Sequence[int]) -> list[str]:
        """The program and its arguments, if `files` have these numbers there."""
        return self._words(numbers)

    def started(self) -> None:
        """The program has its descriptors, or never will: close ours."""
        for file in self.files:
            os.close(file)
        self.files = ()

    def first_pid(self) -> int | None:
        """The first process of the sandbox, which passes signals on to the command; None if there is none.

        Waits until bubblewrap has made it. Call it only while bubblewrap runs, or was not waited for.
        """
        if self._pid_reader is not None:
            told = os.read(self._pid_reader, _PID_REPORT_BYTES)
            os.close(self._pid_reader)
            self._pid_reader = None
            if told:
                self._first_pid = int(msgspec.json.decode(told)["child-pid"])
        return self._first_pid

    def ended(self, *, was_killed: bool) -> None:
        """The program is gone; `was_killed` if a signal ended it."""
        if self._pid_reader is not None:
            os.close(self._pid_reader)
            self._pid_reader = None
        if self._janitor is not None and self.plan is not None:
            self._janitor.release(self.plan.placeholders, was_killed=was_killed)
            self._janitor = None


class Sandbox:
    """Prepares commands on one host. May be used from any thread; `close` it in the end.

    `directory` is private to the user, for files of the sandbox's own; it and `private`
    are hidden from every command.
    """

    def __init__(self, host: HostFacts, directory: Path, private: Sequence[Path] = ()) -> None:
        self._host = host
        self._directory = directory
        self._private = tuple(str(path) for path in (directory, *private))
        self._janitor = Janitor()
        self._scanner = Scanner()

    @property
    def enforcement(self) -> Enforcement:
        """The level that confined commands reach here."""
        return probe.enforcement(self._host) or Enforcement.NONE

    def close(self) -> None:
        """Clear away what commands have left. Those that still run lose the protection of missing paths."""
        self._janitor.close()

    def plan(
        self, profile: ManagedProfile | ExternalProfile, command: Command, *, has_proc: bool = True
    ) -> Plan:
        """What would confine the command now. Raises ProfileRefused when nothing would, as written."""
        surroundings = surroundings_of(command.project_roots, command.environment, self._private)
        patterns = grants_of(profile, surroundings).denied_patterns
        matches: tuple[str, ...] = ()
        if patterns:
            matches = self._scanner.matches(patterns, surroundings.project_roots, _scan_depth(profile))
        return confine(
            profile,
            Scene(
                surroundings=surroundings,
                look=FileFacts(),
                cwd=os.path.realpath(command.cwd),
                denied_matches=matches,
                has_proc=has_proc and self._host.can_mount_proc,
            ),
        )

    def prepare(self, profile: Profile, command: Command, *, has_proc: bool = True) -> Confined:
        """Make a command ready. Blocks while files are looked at.

        Raises ProfileRefused when the profile can't be enforced on the files as they
        are, SandboxUnavailable when this host can't enforce it.
        """
        if not is_enforced(profile):
            return Confined(lambda _: list(command.argv), (), Enforcement.NONE)
        bubblewrap = self._bubblewrap()
        plan = self._held_plan(profile, command, has_proc)
        try:
            return self._confined(bubblewrap, plan, command.argv)
        except BaseException:
            self._janitor.release(plan.placeholders, was_killed=False)
            raise

    def _held_plan(self, profile: ManagedProfile | ExternalProfile, command: Command, has_proc: bool) -> Plan:
        taken = ""
        for _ in range(ATTEMPTS):
            plan = self.plan(profile, command, has_proc=has_proc)
            try:
                self._janitor.hold(plan.placeholders)
            except PlaceTaken as error:
                taken = str(error)
                continue
            return plan
        raise ProfileRefused(taken, "changes all the time", "run the command when it is at rest")

    def _bubblewrap(self) -> Bubblewrap:
        host = self._host
        if host.bwrap is None or probe.enforcement(host) is None:
            problems = host.problems
            raise SandboxUnavailable(
                problems[0].detail if problems else "no usable bubblewrap was found",
                problems[0].remedy if problems else "install bubblewrap",
            )
        return host.bwrap

    def _confined(self, bubblewrap: Bubblewrap, plan: Plan, command: Sequence[str]) -> Confined:
        host_files = bwrap.HostFiles(init=str(init.PATH), unreadable=unreadable_file(self._directory))
        options = bwrap.options(plan, bubblewrap.capabilities, host_files)
        program = seccomp.program(plan.network, self._host.arch)
        writable = [rule.path for rule in plan.rules if rule.access is Access.WRITE]
        said = init.words(
            limits=plan.limits,
            ruleset=landlock.second_layer(writable, plan.network, self._host.landlock_abi),
        )

        def words(numbers: Sequence[int]) -> list[str]:
            arguments, filter_, first, pid_writer = (str(number) for number in numbers)
            return [
                bubblewrap.path,
                *("--args", arguments, "--seccomp", filter_, "--info-fd", pid_writer),
                *("--", f"/proc/self/fd/{first}" if plan.has_proc else INIT),
                *(*said, "--", *command),
            ]

        reader, writer = os.pipe2(os.O_CLOEXEC)
        files = (
            _file_in_memory("options", b"".join(os.fsencode(option) + b"\0" for option in options)),
            _file_in_memory("filter", program),
            os.open(init.PATH, os.O_RDONLY | os.O_CLOEXEC),
            writer,
        )
        return Confined(words, files, self.enforcement, plan, self._janitor, reader)


def is_enforced(profile: Profile) -> TypeGuard[ManagedProfile | ExternalProfile]:
    """Whether the profile leaves anything to enforce."""
    match profile:
        case DisabledProfile():
            return False
        case ManagedProfile(file_system=UnrestrictedFileSystem(), network=network, limits=limits):
            return network is not NetworkMode.ENABLED or limits != Limits()
        case ExternalProfile(network=network):
            return network is not NetworkMode.ENABLED
        case _:
            return True


def _scan_depth(profile: ManagedProfile | ExternalProfile) -> int | None:
    if isinstance(profile, ManagedProfile) and isinstance(profile.file_system, RestrictedFileSystem):
        return profile.file_system.glob_scan_max_depth
    return None


def _file_in_memory(name: str, content: bytes) -> int:
    """A file in memory, to be read from its beginning."""
    file = os.memfd_create(f"paddock-{name}", os.MFD_CLOEXEC)
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file
