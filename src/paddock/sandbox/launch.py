"""From a plan to a command that can be started.

`Sandbox` prepares commands; it starts nothing itself, because the command line and
the server start programs in different ways. What it gives is data: an argument list
and the descriptors that the program must inherit. Whoever starts it tells when it
has ended.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeGuard

from paddock import installation, own_program
from paddock.errors import ProfileRefused, SandboxUnavailable
from paddock.model.host import Bubblewrap, Enforcement, HostFacts, Problem
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
from paddock.sandbox import bwrap, cgroup, init, landlock, limit, probe, seccomp
from paddock.sandbox.access import AccessTable, grants_tmpdir
from paddock.sandbox.assembly import Script, assemble, assemble_init, write_script
from paddock.sandbox.cap import Cap, Ceiling, EnforcedProfile
from paddock.sandbox.command import Command
from paddock.sandbox.confined import Confined
from paddock.sandbox.device_node import owned_nodes
from paddock.sandbox.facts import FileFacts, find_tmpdir, surroundings_of, tmpdir_problem
from paddock.sandbox.glob_scan import Scanner
from paddock.sandbox.janitor import Janitor, PlaceTaken, locate, lock
from paddock.sandbox.kernel_file import closed_files
from paddock.sandbox.mount import LocatedPlaceholder, MountedFile
from paddock.sandbox.mounted_file import FileMoved, is_at, mounted_files, verify_directories
from paddock.sandbox.path import ROOT, is_within
from paddock.sandbox.plan import OWN, PRIVATE, Plan, Scene, confine, grants_of, reach_of
from paddock.sandbox.syscall_table import MACHINES
from paddock.sandbox.unreadable import unreadable_file

if TYPE_CHECKING:
    from paddock.sandbox.tracer import Tracer

TREES_FILE: Final = "trees"
"""In the private directory: what searches for deny patterns have found."""

ATTEMPTS: Final = 5
"""Plans for one command. A new one is made when the files are not any more what the last was made of."""

TRACING_KERNEL: Final = (5, 5)
"""Since then who is asked about a call can let it go on (seccomp_unotify(2))."""

PLACES_LIMIT: Final = 100
"""Places for one command. Each is a descriptor that its first process inherits; the spawner passes on 128."""

NO_BUBBLEWRAP: Final = Problem("bubblewrap", "no usable bubblewrap was found", "install bubblewrap")


@dataclass(frozen=True, slots=True)
class _HeldScript:
    """What is said for a plan whose places are there, and what keeps them."""

    script: Script
    placeholders: Sequence[LocatedPlaceholder]
    mounted: Sequence[MountedFile]
    locks: Sequence[int]
    """Descriptors on the places that were made for it."""

    @property
    def places(self) -> list[MountedFile]:
        """The places that were made for it, and what they are."""
        found = zip(self.placeholders, map(os.fstat, self.locks), strict=True)
        return [MountedFile(place.path, status.st_dev, status.st_ino) for place, status in found]


class Sandbox:
    """Prepares commands on one host. May be used from any thread; `close` it in the end.

    `directory` is private to the user, for files of the sandbox's own; it and `private`
    are hidden from every command. With `use_legacy_landlock` profiles are enforced by
    Landlock alone, and refused if it can't express them. A command gets a session of its own,
    out of reach of the terminal of whoever starts it; without `has_own_session` that is left to
    the starter, who also has to shield the program from signals that are for the command. A profile that
    grants more than `cap` raises ProfileExceeded.
    """

    def __init__(
        self,
        host: HostFacts,
        directory: Path,
        private: Sequence[Path] = (),
        *,
        use_legacy_landlock: bool = False,
        has_own_session: bool = True,
        cap: Cap | None = None,
    ) -> None:
        self._host = host
        self._cap = cap
        self._directory = directory
        self._private = tuple(str(path) for path in (directory, *private))
        bubblewrap = () if host.bwrap is None or host.bwrap.is_bundled else (host.bwrap.path,)
        self._tmpdir = find_tmpdir(os.environ.get("TMPDIR"))
        ripgrep = (program.path for program in own_program.find("rg", own_program.search_path()).system)
        self._own = (*installation.places(), *installation.startup_modules(), *ripgrep, *bubblewrap)
        self._own_links = installation.links()
        self._own_search_directories = installation.search_directories()
        self._use_legacy_landlock = use_legacy_landlock
        self._has_own_session = has_own_session
        self._janitor = Janitor(directory)
        self._scanner = Scanner(directory / TREES_FILE)

    @property
    def enforcement(self) -> Enforcement:
        """The level that confined commands reach here."""
        level = probe.enforcement(self._host) or Enforcement.NONE
        return Enforcement.PARTIAL if self._use_legacy_landlock else level

    def level_of(self, profile: Profile) -> Enforcement:
        """The level that a command under a profile reaches, if it can be prepared."""
        if not is_enforced(profile):
            return Enforcement.NONE
        return Enforcement.PARTIAL if self._needs_filter_alone(profile) else self.enforcement

    def close(self) -> None:
        """Clear away what commands have left. What those that still run need stays until they have ended."""
        self._janitor.close()

    def plan(self, profile: EnforcedProfile, command: Command, *, has_proc: bool = True) -> Plan:
        """What would confine the command now. Raises ProfileRefused when nothing would, as written, and
        ProfileExceeded when that is more than may be granted."""
        ceiling = self._ceiling()
        profile = _admitted(profile, command, ceiling)
        scene = self._scene(profile, command.project_roots)
        _refuse_another_root(scene, command)
        plan = confine(
            profile,
            replace(
                scene,
                cwd=os.path.realpath(command.cwd),
                cwd_name=command.cwd,
                has_proc=has_proc and self._host.can_mount_proc,
            ),
        )
        if ceiling is not None:
            ceiling.admit(plan.extent)
        return plan

    def tmpdir_problem(self, profile: EnforcedProfile, plan: Plan) -> str | None:
        """Why the launcher's temporary directory can't be written, though the profile grants such a one."""
        name = os.environ.get("TMPDIR")
        if not name or not grants_tmpdir(profile):
            return None
        if AccessTable(plan.rules).access_of(os.path.realpath(name)) is Access.WRITE:
            return None
        if self._tmpdir is None:
            problem: str | None = "it is no directory, or behind a link that a command may have made"
        else:
            roots = tuple(rule.path for rule in plan.rules if rule.access is Access.WRITE)
            problem = tmpdir_problem(self._tmpdir, roots) or "the profile denies it"
        return f"TMPDIR {name} is not granted: {problem}"

    def refuse_hidden_directory(self, profile: EnforcedProfile, command: Command) -> None:
        """Refuse a working directory as `plan` would if it were there, for one that can't be entered."""
        _admitted(profile, command, self._ceiling())
        # Of the roots it may be the one that is missing.
        roots = tuple(filter(os.path.isdir, command.project_roots))
        self.plan(profile, replace(command, project_roots=roots, root_id=None))

    def _scene(self, profile: EnforcedProfile, project_roots: tuple[str, ...]) -> Scene:
        surroundings = surroundings_of(
            project_roots,
            self._tmpdir,
            self._private,
            self._own,
            self._own_links,
            self._own_search_directories,
        )
        grants = grants_of(profile, surroundings)
        return Scene(
            surroundings=surroundings,
            look=FileFacts(),
            cwd=ROOT,
            denied_matches=self._scanner.matches(grants, surroundings.project_roots, _scan_depth(profile)),
            is_root=os.geteuid() == 0,
            closed=closed_files(),
            owned_nodes=owned_nodes(),
        )

    def _ceiling(self) -> Ceiling | None:
        """The cap, resolved at the same moment as what is held against it: links may change in between."""
        cap = self._cap
        if cap is None:
            return None
        try:
            return Ceiling(cap, *reach_of(cap.profile, self._scene(cap.profile, cap.project_roots)))
        except ProfileRefused as error:
            raise ProfileRefused(
                f"{error.place} of the profile {cap.name}", error.problem, error.remedy
            ) from error

    def ruleset_alone(self, plan: Plan) -> landlock.Ruleset | None:
        """What enforces a plan in place of its mounts; None with bubblewrap.

        Raises SandboxUnavailable when nothing less than mounts could, with every reason.
        """
        if not self._use_legacy_landlock:
            return None
        ruleset = landlock.alone(_reach(plan), self._host.landlock_abi)
        if isinstance(ruleset, tuple):
            raise SandboxUnavailable(
                f"Landlock alone can't enforce the profile: {'; '.join(ruleset)}",
                "switch use_legacy_landlock off, or use another profile",
            )
        return ruleset

    def prepare(
        self, profile: Profile, command: Command, *, has_proc: bool = True, is_traced: bool = False
    ) -> Confined:
        """Make a command ready. Blocks while files are looked at.

        If it `is_traced`, a thread notes what it is refused, from when it is started until it has
        ended. Raises ProfileRefused when the profile can't be enforced on the files as they
        are, SandboxUnavailable when this host can't enforce it, or trace under it.
        """
        if not is_enforced(profile):
            return Confined(lambda _: list(command.argv), environment=command.environment, cwd=command.cwd)
        if problem := limit.unenforceable(_limits_of(profile), self._host):
            raise SandboxUnavailable(problem.detail, problem.remedy)
        if is_traced and (problem := self._untraceable()):
            raise SandboxUnavailable(problem.detail, problem.remedy)
        if self._use_legacy_landlock:
            return self._with_landlock_alone(self.plan(profile, command), command)
        if self._needs_filter_alone(profile):
            return self._with_filter_alone(profile, command)
        bubblewrap = self._bubblewrap()
        held = self._held_script(profile, command, bubblewrap, has_proc=has_proc, is_traced=is_traced)
        plan = held.script.plan
        with contextlib.ExitStack() as undone:
            undone.callback(self._janitor.release, held.placeholders, was_killed=False)
            for file in held.locks:
                undone.callback(os.close, file)
            tracer = _tracer(plan, self._host.arch) if is_traced else None
            if tracer is not None:
                undone.callback(tracer.discard)
            group = self._group(held.script.counted_processes)
            if group is not None:
                undone.callback(group.discard)
            confined = assemble(
                held.script,
                bubblewrap,
                self.enforcement,
                janitor=self._janitor,
                placeholders=held.placeholders,
                mounted=held.mounted,
                locks=held.locks,
                # A command notices by itself if one is taken away; see `Confined.has_lost_places`.
                places=() if command.argv else held.places,
                tracer=tracer,
                group=group,
            )
            undone.pop_all()
        return confined

    def _held_script(
        self,
        profile: EnforcedProfile,
        command: Command,
        bubblewrap: Bubblewrap,
        *,
        has_proc: bool,
        is_traced: bool,
    ) -> _HeldScript:
        changed = ""
        for _ in range(ATTEMPTS):
            plan = self.plan(profile, command, has_proc=has_proc)
            _refuse_own_program(bubblewrap, plan)
            if len(plan.placeholders) > PLACES_LIMIT:
                raise ProfileRefused(
                    f"the profile with {len(plan.placeholders)} missing paths to be kept from being made",
                    f"has more than {PLACES_LIMIT} of them; the first is {plan.placeholders[0].path}",
                    "grant fewer directories, or one that they are in; deny directories, not what is in them;"
                    " make empty directories for submodules that are not checked out",
                )
            try:
                located = locate(plan.placeholders)
                with self._janitor.holding(located):
                    options = self._options(plan, bubblewrap)
                    script = write_script(plan, self._host, options, command, is_traced=is_traced)
            except PlaceTaken as error:
                changed = str(error)
                continue
            try:
                mounted = mounted_files(plan)
                verify_directories(located, mounted)
                return _HeldScript(script, located, mounted, lock(located))
            except BaseException as error:
                self._janitor.release(located, was_killed=False)
                if not isinstance(error, (PlaceTaken, FileMoved)):
                    raise
                changed = str(error)
        raise ProfileRefused(changed, "changes all the time", "run the command when it is at rest")

    def _options(self, plan: Plan, bubblewrap: Bubblewrap) -> list[str]:
        files = bwrap.HostFiles(init=str(init.PATH), unreadable=unreadable_file(self._directory))
        return bwrap.options(plan, bubblewrap.capabilities, files, has_own_session=self._has_own_session)

    def _untraceable(self) -> Problem | None:
        """Why commands can't be traced here, if they can't."""
        if self._use_legacy_landlock or probe.enforcement(self._host) is None:
            return Problem(
                "trace", "only what bubblewrap confines can be traced", "use bubblewrap, or do not trace"
            )
        if self._host.kernel < TRACING_KERNEL:
            version = ".".join(map(str, TRACING_KERNEL))
            return Problem(
                "trace", "this kernel can't be asked", f"use Linux {version} or newer, or do not trace"
            )
        return None

    def _needs_filter_alone(self, profile: EnforcedProfile) -> bool:
        """Whether there are no sandboxes to be had, and none is needed: only the network is to be refused."""
        return probe.enforcement(self._host) is None and _is_about_network_alone(profile)

    def _bubblewrap(self) -> Bubblewrap:
        host = self._host
        if host.bwrap is None or probe.enforcement(host) is None:
            problem = host.problems[0] if host.problems else NO_BUBBLEWRAP
            raise SandboxUnavailable(problem.detail, problem.remedy)
        return host.bwrap

    def _group(self, processes: int | None) -> cgroup.Group | None:
        """What counts the processes, where a limit of each process does not."""
        if processes is None or self._host.pids_cgroup is None:
            return None
        return cgroup.make(self._host.pids_cgroup, processes)

    def _with_landlock_alone(self, plan: Plan, command: Command) -> Confined:
        """Without namespaces: nothing is hidden, only writing is restricted."""
        return self._with_init_alone(plan.limits, plan.network, command, self.ruleset_alone(plan))

    def _with_filter_alone(self, profile: EnforcedProfile, command: Command) -> Confined:
        """Without namespaces, where only the network is to be refused."""
        ceiling = self._ceiling()
        profile = _admitted(profile, command, ceiling)
        if ceiling is not None:
            ceiling.admit(reach_of(profile, self._scene(profile, command.project_roots))[0])
        return self._with_init_alone(_limits_of(profile), profile.network, command, None)

    def _with_init_alone(
        self,
        limits: Limits,
        network: NetworkMode,
        command: Command,
        ruleset: landlock.Ruleset | None,
    ) -> Confined:
        if not command.argv:
            raise SandboxUnavailable(
                "without namespaces there is no sandbox that others could enter",
                "use bubblewrap, or do it without a sandbox",
            )
        said = init.words(limits=limits, ruleset=ruleset)
        return assemble_init(said, seccomp.program(network, self._host.arch), command)


def _admitted(profile: EnforcedProfile, command: Command, ceiling: Ceiling | None) -> EnforcedProfile:
    """What of a profile may be looked at, before anything is. Raises ProfileExceeded."""
    if ceiling is None:
        return profile
    ceiling.admit_names(command.project_roots)
    return ceiling.visible_part(profile)


def _refuse_another_root(scene: Scene, command: Command) -> None:
    """Refuse a root that leads elsewhere since another command has exchanged a directory above it."""
    if command.root_id is None or not scene.surroundings.project_roots:
        return
    root = scene.surroundings.project_roots[0]
    if not is_at(MountedFile(root, *command.root_id)):
        raise ProfileRefused(
            f"the project root {command.project_roots[0]}",
            "leads to another directory by now",
            "run the command when it is at rest",
        )


def is_enforced(profile: Profile) -> TypeGuard[EnforcedProfile]:
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


def _limits_of(profile: EnforcedProfile) -> Limits:
    return profile.limits if isinstance(profile, ManagedProfile) else Limits()


def _is_about_network_alone(profile: EnforcedProfile) -> bool:
    """Whether somebody outside confines files, and a filter is enough to refuse the network."""
    return isinstance(profile, ExternalProfile) and profile.network is NetworkMode.RESTRICTED


def _reach(plan: Plan) -> landlock.Reach:
    table = AccessTable(plan.rules)
    return landlock.Reach(
        is_fully_readable=all(rule.access is not Access.DENY or rule.origin == PRIVATE for rule in plan.rules)
        and table.access_of(ROOT) is not Access.DENY,
        is_fully_writable=table.access_of(ROOT) is Access.WRITE,
        writable=tuple(rule.path for rule in plan.rules if rule.access is Access.WRITE),
        exceptions=tuple(
            rule.path
            for rule in plan.rules
            if rule.access is not Access.WRITE
            and table.access_around(rule.path) is Access.WRITE
            # Where everything can be written, so can what the programs of Paddock depend on.
            and not (rule.origin == OWN and table.access_of(ROOT) is Access.WRITE)
        ),
        network=plan.network,
        has_process_limit=plan.limits.processes is not None,
    )


def _refuse_own_program(bubblewrap: Bubblewrap, plan: Plan) -> None:
    """Refuse a bubblewrap that lies where the profile lets commands write: one may have made it."""
    if bubblewrap.is_bundled:
        return
    for rule in plan.rules:
        # Who may write everything is told nothing by a place.
        if rule.access is Access.WRITE and rule.path != ROOT and is_within(bubblewrap.path, rule.path):
            raise SandboxUnavailable(
                f"{bubblewrap.path} lies in {rule.path}, which the profile grants to write ({rule.origin})",
                "install bubblewrap in a directory of the system, or grant another directory",
            )


def _scan_depth(profile: ManagedProfile | ExternalProfile) -> int | None:
    if isinstance(profile, ManagedProfile) and isinstance(profile.file_system, RestrictedFileSystem):
        return profile.file_system.glob_scan_max_depth
    return None


def _tracer(plan: Plan, machine: str) -> Tracer:
    # Few commands are traced, and it takes a while to load.
    from paddock.sandbox.cover import Cover
    from paddock.sandbox.observation import Observation
    from paddock.sandbox.policy import Policy
    from paddock.sandbox.tracer import Tracer

    return Tracer(Observation(plan, MACHINES[machine]), Policy(plan), Cover(plan.mounts, plan.placeholders))
