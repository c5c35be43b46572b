"""A sandbox that exists before its command: what it was made of, and how a command gets into it.

bubblewrap makes it like any other. Its init has confined itself and waits (native/waiting.h). No placeholder
is held for it: the masks on placeholders are left out and mounted when a command comes. To find out whether
that command would get the very same sandbox now, compare the `SpareFacts` of both.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.model.profile import Access, Limits, NetworkMode
from paddock.sandbox.enforce.confined import Confined
from paddock.sandbox.enforce.janitor import Masking
from paddock.sandbox.enforce.mount_source import mounted_files
from paddock.sandbox.host.linkless import Identity, identity_at
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import LocatedPlaceholder, PlaceholderKind
from paddock.sandbox.host.recheck import Recheck
from paddock.sandbox.plan.mount import Bind
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.profile.path import ancestors

_NS_GET_USERNS: Final = 0xB701


class SpareFacts(Struct, frozen=True):
    """The facts that a sandbox rests on. Equal facts lead to the same sandbox."""

    plan: Plan
    mounted: tuple[MountedFile, ...]
    """The host files that the sandbox mounts, except for placeholders."""
    others: tuple[Identity, ...]
    """The state of each other path that it depends on: mount points, grants, the working directory."""


class Unsuitable(Exception):
    """The plan can't be made into a sandbox that waits."""


class Spare:
    """A sandbox that waits for its command. `close` it in the end, in any case."""

    def __init__(
        self,
        facts: SpareFacts,
        confined: Confined,
        control: socket.socket,
        placeholders: Sequence[LocatedPlaceholder],
    ) -> None:
        self.facts = facts
        self._recheck = _recheck_of(facts)
        self.confined = confined
        """Starts and ends the sandbox while it has no command."""
        self.placeholders = placeholders
        """Those that a command needs. Nobody holds them while there is none."""
        self._control = control
        self._namespaces: list[int] = []
        self._masking: Masking | None = None

    @property
    def namespaces(self) -> Sequence[int]:
        """Return two descriptors: of the user namespace, and of the mount namespace that it owns."""
        return self._namespaces

    def fits(self, plan: Plan) -> bool:
        """Return whether a plan made now is this sandbox's, and rests on the same facts. Raises FileMoved."""
        if plan is not self.facts.plan and plan != self.facts.plan:
            return False
        # To look in detail takes longer, and says the same.
        return not self._recheck.differing() or facts_of(plan) == self.facts

    def settle(self) -> None:
        """Open the namespaces of the sandbox once it waits. Raises OSError, or Unsuitable if it has none."""
        pid = self.confined.first_pid()
        if pid is None:
            raise Unsuitable
        mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self._namespaces = [mounts]
        self._namespaces.insert(0, fcntl.ioctl(mounts, _NS_GET_USERNS))

    def begin(self, masking: Masking | None) -> None:
        """Remember that the placeholders are being mounted; None if they are not."""
        self._masking = masking

    def take_masking(self) -> Masking | None:
        """Return what `begin` was given, once. The caller finishes or undoes it."""
        masking, self._masking = self._masking, None
        return masking

    def send(self, words: int, streams: Sequence[int]) -> None:
        """Send a command: a file with the words for the init, and its standard streams. Raises OSError."""
        socket.send_fds(self._control, [b"\0"], [words, *streams])

    def close(self) -> None:
        """Release the sandbox, which ends if it still waits."""
        self._control.close()
        files, self._namespaces = self._namespaces, []
        for file in files:
            with contextlib.suppress(OSError):
                os.close(file)


def needs_group(limits: Limits, *, has_pids: bool) -> bool:
    """Return whether a limit needs a control group, because the init can't set it on the command itself.

    A group counts processes where the host `has_pids`.
    """
    return limits.total_memory_bytes is not None or (has_pids and limits.processes is not None)


def facts_of(plan: Plan) -> SpareFacts:
    """Look at everything that a plan rests on. Raises FileMoved when it is not as planned."""
    return SpareFacts(plan, tuple(mounted_files(plan)), tuple(map(identity_at, _other_paths(plan))))


def _other_paths(plan: Plan) -> Iterable[str]:
    made = {placeholder.path for placeholder in plan.placeholders}
    paths = dict.fromkeys(mount.path for mount in plan.mounts if mount.path not in made)
    paths |= dict.fromkeys(rule.path for rule in plan.rules if rule.access is Access.WRITE)
    paths[plan.cwd] = None
    return paths


def _recheck_of(facts: SpareFacts) -> Recheck:
    recheck = Recheck()
    for file in facts.mounted:
        recheck.expect_identity(file.path, (file.device, file.inode), without_links=True)
    for path, identity in zip(_other_paths(facts.plan), facts.others, strict=True):
        recheck.expect_identity(path, identity)
    return recheck


def without_placeholders(plan: Plan) -> Plan:
    """Return the part of a plan that can be made before its placeholders. Raises Unsuitable.

    The rest must be masks that can be mounted by themselves, on top of everything else.
    """
    made = {placeholder.path for placeholder in plan.placeholders}
    late = [mount for mount in plan.mounts if mount.path in made]
    is_masked = all(isinstance(mount, Bind) and not mount.is_writable for mount in late)
    is_crossed = any(above in made for mount in plan.mounts for above in ancestors(mount.path))
    has_socket = any(placeholder.kind == PlaceholderKind.SOCKET for placeholder in plan.placeholders)
    # A sandbox with listeners for a proxy has the sockets of one command.
    if not is_masked or is_crossed or has_socket or not plan.has_proc or plan.network is NetworkMode.PROXIED:
        raise Unsuitable
    return replace(
        plan,
        mounts=tuple(mount for mount in plan.mounts if mount.path not in made),
        placeholders=(),
        masks=tuple(mask for mask in plan.masks if mask.path not in made),
    )
