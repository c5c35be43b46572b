"""The words and descriptors with which bubblewrap and paddock-init are started.

A `Script` is what they are told, as far as it follows from a plan; it is written while the places of the plan
are made. `assemble` adds what exists once: pipes, files in memory, locks, and what is mounted. Nothing is
decided here about what a command may do.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from paddock import own_program
from paddock.c_string import c_strings
from paddock.errors import ProfileRefused
from paddock.model.host import Bubblewrap, Enforcement, HostFacts
from paddock.model.profile import Access, Limits
from paddock.model.restriction import Restriction
from paddock.sandbox import cgroup, init, landlock, seccomp
from paddock.sandbox.command import Command
from paddock.sandbox.confined import Confined, Readers
from paddock.sandbox.janitor import Janitor
from paddock.sandbox.mount import LocatedPlaceholder, MountedFile
from paddock.sandbox.plan import Plan
from paddock.sandbox.view import INIT

if TYPE_CHECKING:
    from paddock.sandbox.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Script:
    """What bubblewrap and paddock-init are told for one plan, but for the numbers of descriptors."""

    plan: Plan
    options: Sequence[str]
    """For bubblewrap."""
    filter: bytes
    """For bubblewrap to load."""
    init_words: Sequence[str]
    """For paddock-init, with the command at their end."""
    restriction: Restriction
    """What a process that enters the sandbox has to take on."""
    counted_processes: int | None
    """How many there may be in a control group, which must be made for them; None if none is needed."""


def write_script(
    plan: Plan,
    host: HostFacts,
    options: Sequence[str],
    command: Command,
    *,
    is_traced: bool = False,
) -> Script:
    """Put a plan into words. `options` are bubblewrap's.

    Without arguments of the `command` the sandbox is kept for others to enter.
    """
    # A sandbox that is kept is not what the limits of a command are for.
    limits = plan.limits if command.argv else Limits()
    counted = None if host.pids_cgroup is None else limits.processes
    writable = [rule.path for rule in plan.rules if rule.access is Access.WRITE]
    ruleset = landlock.second_layer(writable, plan.network, host.landlock_abi)
    said = init.words(
        limits=limits if counted is None else msgspec.structs.replace(limits, processes=None),
        ruleset=ruleset,
        argv0=command.arg0,
        # As bubblewrap sets it, which does not know the variables of the command.
        environment={**command.environment, "PWD": plan.cwd} if command.argv else None,
        # Of a sandbox that is kept, whoever lets others enter looks before.
        masks=plan.masks if command.argv else (),
        holds=not command.argv,
    )
    program = seccomp.program(plan.network, host.arch)
    return Script(
        plan=plan,
        options=options,
        filter=seccomp.remainder(host.arch) if is_traced else program,
        init_words=[*said, "--", *command.argv],
        restriction=Restriction(landlock=landlock.rules(ruleset), filter=program),
        counted_processes=counted,
    )


def assemble(
    script: Script,
    bubblewrap: Bubblewrap,
    enforcement: Enforcement,
    *,
    janitor: Janitor,
    placeholders: Sequence[LocatedPlaceholder],
    mounted: Iterable[MountedFile],
    locks: Iterable[int],
    places: Sequence[MountedFile] = (),
    tracer: Tracer | None = None,
    group: cgroup.Group | None = None,
) -> Confined:
    """A command that is ready, and reaches the level `enforcement`.

    `mounted` is what its mounts must be of. The `placeholders`, which `janitor` holds, their `locks`, the
    tracer and the group are its own from now on; `places` are those that others have to look after.
    """
    # Before anything is open that would have to be closed if it can't be written.
    options, told = _strings(script.options), _strings([*init.words(mounted=mounted), *script.init_words])
    with _Opened() as opened:
        pid_reader, pid_writer = opened.pipe()
        report_reader, report_writer = opened.pipe()
        files = {
            "options": opened.memory("options", options),
            "filter": opened.memory("filter", script.filter),
            "init": opened.own(os.dup(own_program.opened(init.PATH))),
            "pid": pid_writer,
            "report": report_writer,
            "more": opened.memory("command", told),
            # bubblewrap must be able to write the pid though we are killed, or its child would wait for ever.
            "pid reader": opened.own(os.dup(pid_reader)),
            # Looked at as this descriptor; by its name it could be another by now.
            **({"bubblewrap": opened.own(os.dup(bubblewrap.fd))} if bubblewrap.fd is not None else {}),
            **({"trace": tracer.file} if tracer is not None else {}),
            **({"group": group.entrance} if group is not None else {}),
        }
        opened.pop_all()

    def words(numbers: Sequence[int]) -> list[str]:
        # The locks come behind those that have names, and nobody needs to know their numbers.
        return _words(bubblewrap, script, dict(zip(files, numbers, strict=False)))

    return Confined(
        words,
        [*files.values(), *locks],
        enforcement,
        plan=script.plan,
        janitor=janitor,
        placeholders=placeholders,
        readers=Readers(report_reader, pid_reader),
        tracer=tracer,
        group=group,
        restriction=script.restriction,
        places=places,
    )


def assemble_init(said: Sequence[str], filter_: bytes, command: Command) -> Confined:
    """A command that paddock-init confines without bubblewrap; `said` is what else the init is told."""
    words_of_command = init.words(argv0=command.arg0, environment=command.environment, cwd=command.cwd)
    told = _strings([*said, *words_of_command, "--", *command.argv])
    with _Opened() as opened:
        report_reader, report_writer = opened.pipe()
        files = {
            "filter": opened.memory("filter", filter_),
            "report": report_writer,
            "more": opened.memory("command", told),
            "init": opened.own(os.dup(own_program.opened(init.PATH))),
        }
        opened.pop_all()

    def words(numbers: Sequence[int]) -> list[str]:
        at = dict(zip(files, numbers, strict=True))
        said = init.words(filter_fd=at["filter"], report_fd=at["report"], more_fd=at["more"])
        return [f"/proc/self/fd/{at['init']}", *said]

    readers = Readers(report_reader)
    return Confined(words, tuple(files.values()), Enforcement.PARTIAL, readers=readers)


class _Opened(contextlib.ExitStack):
    """Descriptors that are closed at the end of the block, unless `pop_all` says that they have an owner.

    The system may run out of them at any one.
    """

    def own(self, file: int) -> int:
        self.callback(os.close, file)
        return file

    def pipe(self) -> tuple[int, int]:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        return self.own(reader), self.own(writer)

    def memory(self, name: str, content: bytes) -> int:
        """A file in memory, to be read from its beginning."""
        file = self.own(os.memfd_create(f"paddock-{name}", os.MFD_CLOEXEC))
        os.write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
        return file


def _words(bubblewrap: Bubblewrap, script: Script, at: Mapping[str, int]) -> list[str]:
    """What to say to bubblewrap; `at` has the numbers of the descriptors by their names."""
    read_only = init.words(read_only=script.plan.read_only)
    return [
        *((f"/proc/self/fd/{at['init']}", *read_only, "--") if read_only else ()),
        f"/proc/self/fd/{at['bubblewrap']}" if "bubblewrap" in at else bubblewrap.path,
        *(["--args", str(at["options"])] if bubblewrap.capabilities.args else script.options),
        *("--seccomp", str(at["filter"]), "--info-fd", str(at["pid"])),
        *("--", f"/proc/self/fd/{at['init']}" if script.plan.has_proc else INIT),
        *init.words(
            trace_fd=at.get("trace"), report_fd=at["report"], cgroup_fd=at.get("group"), more_fd=at["more"]
        ),
    ]


def _strings(words: Sequence[str]) -> bytes:
    try:
        return c_strings(words, sys.getfilesystemencoding())
    except ValueError as error:
        # The words of a command and the paths of a profile were checked where they came in.
        raise ProfileRefused("what the init is told", str(error), "leave it out") from error
