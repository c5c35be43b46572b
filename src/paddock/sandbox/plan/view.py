"""Turns rules into the mounts that enforce them.

Mounts go from the root towards the leaves, so each rule is a mount on top of those about shorter paths, and
the most specific one wins by itself. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.host.look import KernelFile, Kind, Link, Look, PathFact
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from paddock.sandbox.plan.mount import (
    Bind,
    Devices,
    EmptyDirectory,
    InitProgram,
    Mount,
    Processes,
    Seal,
    Shortcut,
    UnreadableFile,
)
from paddock.sandbox.profile.access import METADATA_NAMES, AccessTable, Rule
from paddock.sandbox.profile.path import (
    DEV,
    KERNEL_OBJECTS,
    KERNEL_SETTINGS,
    PROC,
    ROOT,
    ancestors,
    is_within,
    parent,
)

INIT: Final = "/proc/paddock-init"
"""Path of the first program when /proc is empty."""
KERNELS: Final = "the kernel's own, of no use to a command"

VIEW_MODE: Final = 0o755
BLOCKED_MODE: Final = 0o555
DENIED_MODE: Final = 0o000
PASSAGE_MODE: Final = 0o111
"""Mode of a denied directory that leads to something granted: a command can pass through but not list it."""


class View:
    """Collects the mounts for a set of rules; call its methods in the order of their definition."""

    def __init__(self, table: AccessTable, look: Look) -> None:
        self._table = table
        self._look = look
        self.mounts: list[Mount] = []
        self.placeholders: list[Placeholder] = []
        self.adopted: list[str] = []
        """Placeholders of a kind that only other commands need."""
        self.masks: list[str] = []
        self._mounted = {ROOT}
        self._occupied: set[str] = set()
        self._unsealed: list[str] = []
        self._seals_processes = False

    def show_root(self, links: Iterable[Link]) -> None:
        """Start with the host's files, or with nothing but the links by which granted paths are reached."""
        access = self._table.access_of(ROOT)
        if access is Access.DENY:
            self._cover(ROOT, VIEW_MODE, "only what is granted is there")
            for link in dict.fromkeys(links):
                if self._table.access_of(link.path) is Access.DENY:
                    self.mounts.append(Shortcut(link.path, link.target))
            return
        self.mounts.append(Bind(ROOT, access is Access.WRITE, f"{access} access to everything"))
        if access is Access.WRITE and self._look.at(KERNEL_OBJECTS).kind is Kind.DIRECTORY:
            self._bind(KERNEL_OBJECTS, is_writable=False, reason="settings of the kernel, not files")

    def add_devices(self) -> None:
        """Add a /dev of harmless devices."""
        self.mounts.append(Devices(DEV))
        self._mounted.add(DEV)

    def add_processes(self, has_proc: bool, *, is_root: bool, is_strict: bool) -> None:
        """Add a /proc that shows no process of the host; without `has_proc` an empty one."""
        self._mounted.add(PROC)
        if not has_proc:
            self._cover(PROC, BLOCKED_MODE, "no process of the host is shown")
            self.mounts.append(InitProgram(INIT))
            return
        self.mounts.append(Processes(PROC))
        if is_root or is_strict:
            # Through /proc/PID/mem a process can write into others, even paddock-stub until it forbids that.
            # Root owns the kernel's files in every /proc: it could write settings, of which core_pattern
            # alone would run a program outside, and change the modes of all files for the whole host.
            self._seals_processes = True
        elif self._look.at(KERNEL_SETTINGS).kind is not Kind.MISSING:
            # bubblewrap leaves it alone, because the directory itself can't be written. Some files in it can.
            self._bind(KERNEL_SETTINGS, is_writable=False, reason="settings of the kernel")

    def close_kernel(self, closed: Iterable[KernelFile], has_proc: bool) -> None:
        """Close the kernel's own files that a command has no use for."""
        for file in closed:
            is_process = is_within(file.path, PROC)
            if not has_proc if is_process else not self._shows_kernel_object(file.path):
                continue
            if not file.is_directory:
                self.mounts.append(UnreadableFile(file.path, KERNELS))
            elif is_process:
                self._cover(file.path, BLOCKED_MODE, KERNELS)
            else:
                # Not sealed: that would take as long as mounting a file, and Landlock lets nobody write
                # there.
                self.mounts.append(EmptyDirectory(file.path, BLOCKED_MODE, KERNELS))
            self._mounted.add(file.path)
        if self._seals_processes:
            # Sealed already here, because every mount point in it exists, and each further mount makes it
            # slower.
            self.mounts.append(Seal(PROC))

    def _shows_kernel_object(self, path: str) -> bool:
        """Return whether a path is in sight without being named by the profile."""
        return self._table.access_of(path) is not Access.DENY and not any(
            (is_within(path, rule.path) and rule.path != ROOT) or is_within(rule.path, path)
            for rule in self._table.rules
        )

    def apply(self, rule: Rule) -> None:
        """Enforce one rule. Call it for shallow paths first; `show_root` is for the rule about the root."""
        # /proc is about the sandbox, never about the host, so there is nothing to grant.
        if rule.path == ROOT or (rule.access is not Access.DENY and is_within(rule.path, PROC)):
            return
        # The devices that everybody may read are there already; the host's own are for those who may write.
        if rule.path == DEV and rule.access is Access.READ:
            return
        around = self._table.access_around(rule.path)
        fact = self._look.at(rule.path)
        if fact.kind is Kind.MISSING:
            if around is Access.WRITE and rule.access is not Access.WRITE:
                self._occupy(rule, fact)
            elif around is Access.WRITE and fact.placeholder is not None and fact.first_missing == rule.path:
                self._share(rule.path, fact.placeholder)
        elif rule.access is not around:
            if around is Access.WRITE:
                self._pin_ancestors(rule.path)
            if around is Access.WRITE or rule.access is Access.DENY:
                self.masks.append(rule.path)
            self._mount(rule, fact.kind)

    def seal(self) -> None:
        """Close the empty directories, which had to stay open until all mount points were made."""
        self.mounts += [Seal(path) for path in reversed(self._unsealed)]

    def keep_nodes(self, owned_nodes: Sequence[str]) -> tuple[str, ...]:
        """Let these nodes stay as they are: give the command others, or return what of the host has to be
        read-only for it, in this order."""
        if not owned_nodes:
            return ()
        devices = [number for number, mount in enumerate(self.mounts) if is_within(mount.path, DEV)]
        if len(devices) == 1:
            # The command needs nothing of the host's /dev.
            self.mounts[devices[0]] = Devices(DEV, is_ready=True)
            return ()
        if any(isinstance(each, Bind) and each.has_devices for each in self.mounts):
            # The profile lets something be made there.
            return tuple(owned_nodes)
        # One mount for all. It does not make a node read-only that is a mount itself, as in containers.
        return (DEV, *owned_nodes)

    def _mount(self, rule: Rule, kind: Kind) -> None:
        reason = f"{rule.access} access, {rule.origin}"
        if rule.access is not Access.DENY:
            self._bind(rule.path, is_writable=rule.access is Access.WRITE, reason=reason)
        elif kind is Kind.DIRECTORY:
            self._cover(rule.path, PASSAGE_MODE if self._leads_on(rule.path) else DENIED_MODE, reason)
        else:
            self.mounts.append(UnreadableFile(rule.path, reason))
        self._mounted.add(rule.path)

    def _occupy(self, rule: Rule, fact: PathFact) -> None:
        """Keep a missing protected path from being created. Raises if its absence can't be verified."""
        missing = fact.first_missing
        assert missing is not None
        if not self._occupied.isdisjoint((missing, *ancestors(missing))):
            return
        is_skipped = rule.skips_missing and not rule.is_metadata and not fact.is_hidden
        if is_skipped:
            return
        if self._look.at(parent(missing)).kind is Kind.FILE:
            # Nothing can be made there as long as the file stays.
            self._pin_ancestors(missing)
            return
        if not self._look.can_grow(parent(missing)):
            return
        if fact.is_hidden:
            # An earlier command may have closed the directory, and this one could reopen it.
            raise ProfileRefused(
                rule.path,
                f"may be in {parent(missing)}, which can't be searched, but the command could change that",
                "make the directory accessible",
            )
        self._pin_ancestors(missing)
        reason = f"nothing can be made here: {rule.origin}"
        # Commands under other profiles may need the same place for something else.
        wanted = _placeholder_for(rule, missing)
        kind = fact.placeholder or wanted
        if kind != wanted:
            self.adopted.append(missing)
        self.placeholders.append(Placeholder(missing, kind))
        if rule.is_metadata:
            self.mounts.append(Bind(missing, is_writable=False, reason=reason))
        elif kind == PlaceholderKind.DIRECTORY:
            self._cover(missing, DENIED_MODE, reason)
        else:
            self.mounts.append(UnreadableFile(missing, reason))
        self._occupied.add(missing)
        self.masks.append(missing)
        self._mounted.add(missing)

    def _share(self, path: str, kind: str) -> None:
        """Let the command create something in another command's mask, but not move the mask."""
        self.placeholders.append(Placeholder(path, kind))
        self._occupied.add(path)
        self._bind(path, is_writable=True, reason="other commands need it where it is")

    def _pin_ancestors(self, path: str) -> None:
        """Mount each writable directory above a path on itself.

        A mount point can't be renamed. Otherwise the command could move a directory
        away, and the next command would find what is in it under a name that no rule
        knows.
        """
        loose = []
        for directory in ancestors(path):
            if directory in self._mounted:
                break
            loose.append(directory)
        for directory in reversed(loose):
            self._bind(directory, is_writable=True, reason="can't be moved away, for what is protected in it")
        self.masks += loose

    def _leads_on(self, path: str) -> bool:
        """Return whether something below a denied directory is granted."""
        return any(
            rule.access is not Access.DENY and rule.path != path and is_within(rule.path, path)
            for rule in self._table.rules
        )

    def _bind(self, path: str, *, is_writable: bool, reason: str) -> None:
        # A read-only mount does not stop writing to a device; only a mount without devices does.
        self.mounts.append(Bind(path, is_writable, reason, has_devices=is_writable and is_within(path, DEV)))
        self._mounted.add(path)

    def _cover(self, path: str, mode: int, reason: str) -> None:
        self.mounts.append(EmptyDirectory(path, mode, reason))
        self._unsealed.append(path)


def _placeholder_for(rule: Rule, missing: str) -> str:
    """Return the kind of placeholder that keeps a path, or the first missing directory above it, from being
    made."""
    if not rule.is_metadata:
        # git and agents fail at a file of such a name, and pass over a directory.
        is_metadata_elsewhere = missing.rpartition("/")[2] in METADATA_NAMES
        return PlaceholderKind.DIRECTORY if is_metadata_elsewhere else PlaceholderKind.FILE
    if missing == rule.path and rule.stands_as_socket:
        return PlaceholderKind.SOCKET
    return PlaceholderKind.FILE if missing == rule.path and rule.stands_as_file else PlaceholderKind.DIRECTORY
