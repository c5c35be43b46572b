"""Plans commands on this host: combines a profile with the host's files.

For each plan it looks at links, matches of deny patterns and the kernel's own files; `plan` decides what
follows. It resolves a server's cap at the same moment as the profile that the cap bounds. It changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from paddock import own_program
from paddock.errors import ProfileRefused
from paddock.model.host import HostFacts
from paddock.model.profile import Access
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.host import question
from paddock.sandbox.host.facts import FileFacts, find_tmpdir, surroundings_of, tmpdir_problem
from paddock.sandbox.host.kernel_mount import kernel_mounts, may_have_kernel_mounts
from paddock.sandbox.host.letter_case import uncertain_paths
from paddock.sandbox.host.linkless import is_at
from paddock.sandbox.host.look import KernelFile
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.host.mount_alias import aliases_in, aliases_of
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.overlay_layer import layers_in
from paddock.sandbox.plan.plan import Plan, PlanInput, grants_of, reach_of
from paddock.sandbox.plan_memory import PlanMemory
from paddock.sandbox.profile.access import SLASH_TMP, AccessTable, Grants, grants_tmpdir, names_minimal
from paddock.sandbox.profile.enforced import EnforcedProfile, restricted_files
from paddock.sandbox.profile.path import ROOT, is_within
from paddock.shortage import raise_if_short

if TYPE_CHECKING:
    from paddock.sandbox.host.glob_scan import Scanner
    from paddock.sandbox.plan.cap import Cap, Ceiling

TREES_FILE: Final = "trees"
"""File in the private directory with the results of searches for deny patterns."""


class Planner:
    """Plans commands on one host. May be used from any thread.

    `directory` is private to the user, for files of the sandbox's own; it and `private` are hidden from every
    command. A profile that grants more than `cap` raises ProfileExceeded.
    """

    def __init__(
        self,
        host: HostFacts,
        directory: str | os.PathLike[str],
        private: Sequence[str | os.PathLike[str]] = (),
        cap: Cap | None = None,
    ) -> None:
        self._host = host
        self._cap = cap
        self._private = tuple(os.fspath(path) for path in (directory, *private))
        bubblewrap = () if host.bwrap is None or host.bwrap.is_bundled else (host.bwrap.path,)
        self._tmpdir = find_tmpdir(os.environ.get("TMPDIR"))
        ripgrep = (program.path for program in own_program.find("rg", own_program.search_path()).system)
        self._installed = question.installed_files("")
        own, self._own_links, self._own_searched, self._rules_directories, shared = self._installed
        self._own = (*own, *ripgrep, *bubblewrap)
        self._own_files = frozenset(shared)
        self._trees = os.path.join(directory, TREES_FILE)
        self._plans = PlanMemory()

    def plan(
        self,
        profile: EnforcedProfile,
        command: Command,
        *,
        has_proc: bool = True,
        is_strict: bool = False,
        lookups: LookupRecord | None = None,
    ) -> Plan:
        """Return the plan for a command now; if it `is_strict`, no process can reach another's memory.

        Everything that it looked at goes to `lookups`, if they are given. Raises ProfileRefused when the
        profile can't be enforced as written, and ProfileExceeded when it grants more than the cap.
        """
        ceiling = self._ceiling()
        profile = _visible_part(profile, command, ceiling)
        record = LookupRecord() if lookups is None else lookups
        given = self._input(profile, command.project_roots, record)
        record.is_complete &= ceiling is None
        if lookups is not None:
            name = os.environ.get("TMPDIR")
            # It was found at the start.
            record.is_complete &= find_tmpdir(name, record) == self._tmpdir
            if name:
                # Whoever is told why it is not granted is told about this.
                record.ask(question.real_path, os.path.join(os.getcwd(), name))
        _refuse_another_root(given, command)
        plan = self._plans.confine(
            profile,
            replace(
                given,
                cwd=record.ask(question.real_path, command.cwd),
                cwd_name=command.cwd,
                has_proc=has_proc and self._host.can_mount_proc,
                is_strict=is_strict,
            ),
            lookups,
        )
        if ceiling is not None:
            ceiling.admit(plan.extent)
        kept = [
            *(mask.path for mask in plan.masks),
            *(each.path for each in plan.placeholders),
            *(pattern.base for pattern in plan.denied_patterns),
        ]
        uncertain = uncertain_paths(_mount_table(record), kept)
        return replace(plan, uncertain_paths=uncertain) if uncertain else plan

    def admit(self, profile: EnforcedProfile, command: Command) -> None:
        """Refuse what exceeds the cap, for a command that needs no plan. Raises as `plan`."""
        ceiling = self._ceiling()
        if ceiling is not None:
            profile = _visible_part(profile, command, ceiling)
            ceiling.admit(reach_of(profile, self._input(profile, command.project_roots), FileFacts())[0])

    def refuse_hidden_directory(self, profile: EnforcedProfile, command: Command) -> None:
        """Refuse a working directory as `plan` would if it were there, for one that can't be entered."""
        _visible_part(profile, command, self._ceiling())
        # It may be the project root that is missing.
        roots = tuple(filter(os.path.isdir, command.project_roots))
        self.plan(profile, replace(command, project_roots=roots, root_id=None))

    def tmpdir_problem(self, profile: EnforcedProfile, plan: Plan) -> str | None:
        """Return why the launcher's temporary directory can't be written, though the profile grants it."""
        name = os.environ.get("TMPDIR")
        if not name or not grants_tmpdir(profile):
            return None
        if AccessTable(plan.rules).access_of(os.path.realpath(name)) is Access.WRITE:
            return None
        if self._tmpdir is None:
            problem: str | None = "it is not a directory, or is behind a link that a command may have made"
        else:
            roots = tuple(rule.path for rule in plan.rules if rule.access is Access.WRITE)
            problem = tmpdir_problem(self._tmpdir, roots) or "the profile denies it"
        return f"TMPDIR {name} is not granted: {problem}"

    def _input(
        self,
        profile: EnforcedProfile,
        project_roots: tuple[str, ...],
        lookups: LookupRecord | None = None,
    ) -> PlanInput:
        record = LookupRecord() if lookups is None else lookups
        record.note(question.installed_files, "", self._installed)
        table = _mount_table(record)
        layers = layers_in(table, partial(record.ask, question.real_directories))
        own = (*self._own, *aliases_of(table, self._own, layers))
        private = _resolved(self._private, record)
        rules_directories = _resolved(self._rules_directories, record)
        surroundings = surroundings_of(
            project_roots,
            self._tmpdir,
            (*private, *aliases_of(table, private, layers)),
            own,
            self._own_links,
            self._own_searched,
            (*self._rules_directories, *aliases_of(table, rules_directories, layers)),
            private_names=self._private,
            needs_minimal=names_minimal(profile),
            lookups=record,
        )
        kernels = kernel_mounts(table)
        shown_twice = aliases_in(table, (*self._own, *private, *rules_directories), layers)
        record.is_complete &= not shown_twice and not may_have_kernel_mounts(table)
        grants = grants_of(profile, surroundings)
        own_names: tuple[str, ...] = ()
        if self._own_files:
            temporary = _resolved(tuple(filter(None, (SLASH_TMP, surroundings.tmpdir))), record)
            own_names = self._scanner.names_in_grants(
                self._own_files, grants, (*own, *kernels), temporary, lookups
            )
        denied_matches: tuple[str, ...] = ()
        if grants.denies_anything:
            record.is_complete &= _finds_nothing(grants, record)
            denied_matches = self._scanner.matches(
                grants, surroundings.project_roots, _scan_depth(profile), kernels
            )
        return PlanInput(
            surroundings=replace(surroundings, own_names=own_names) if own_names else surroundings,
            cwd=ROOT,
            denied_matches=denied_matches,
            is_root=os.geteuid() == 0,
            closed=tuple(KernelFile(*file) for file in record.ask(question.closed_files, "")),
            kernel_mounts=kernels,
            owned_nodes=record.ask(question.owned_nodes, ""),
        )

    @cached_property
    def _scanner(self) -> Scanner:
        """Import the scanner when it is needed: most profiles deny nothing."""
        from pathlib import Path

        from paddock.sandbox.host.glob_scan import Scanner

        return Scanner(Path(self._trees))

    def _ceiling(self) -> Ceiling | None:
        """Return the cap on the files as they are now: links may change before the next look."""
        cap = self._cap
        if cap is None:
            return None
        from paddock.sandbox.plan.cap import Ceiling

        try:
            return Ceiling(
                cap, *reach_of(cap.profile, self._input(cap.profile, cap.project_roots), FileFacts())
            )
        except ProfileRefused as error:
            raise ProfileRefused(
                f"{error.subject} of the profile {cap.name}", error.problem, error.remedy
            ) from error


def _resolved(paths: tuple[str, ...], lookups: LookupRecord) -> tuple[str, ...]:
    return tuple(lookups.ask(question.real_path, path) for path in paths)


def _mount_table(lookups: LookupRecord) -> bytes:
    try:
        return lookups.ask(question.mount_table, "")
    except OSError as error:
        raise_if_short(error)
        raise ProfileRefused(
            "the table of mounts", f"can't be read: {error.strerror}", "mount /proc"
        ) from error


def _finds_nothing(grants: Grants, lookups: LookupRecord) -> bool:
    """Return whether a search for more to deny depends on one question alone, and ends with its answer."""
    denied = sorted(
        lookups.ask(question.real_path, rule.path) for rule in grants.rules if rule.access is Access.DENY
    )
    granted = (rule.path for rule in grants.rules if rule.access is not Access.DENY)
    if grants.denied_patterns or any(is_within(path, top) for path in granted for top in denied):
        return False
    return not lookups.ask(question.several_names, "\0".join(denied))


def _visible_part(profile: EnforcedProfile, command: Command, ceiling: Ceiling | None) -> EnforcedProfile:
    """Return the part of a profile that may be looked at, before any look. Raises ProfileExceeded."""
    if ceiling is None:
        return profile
    ceiling.admit_names(command.project_roots)
    return ceiling.visible_part(profile)


def _refuse_another_root(given: PlanInput, command: Command) -> None:
    """Refuse a root that leads elsewhere because another command has replaced a directory above it."""
    if command.root_id is None or not given.surroundings.project_roots:
        return
    root = given.surroundings.project_roots[0]
    if not is_at(MountedFile(root, *command.root_id)):
        raise ProfileRefused(
            f"the project root {command.project_roots[0]}",
            "leads to another directory now",
            "run the command when nothing changes it",
        )


def _scan_depth(profile: EnforcedProfile) -> int | None:
    files = restricted_files(profile)
    return None if files is None else files.glob_scan_max_depth
