"""Groups that closed processes have left behind, and that still have members.

`sh -c 'server >log 2>&1 &'` ends at once and its streams with it, while the
server lives on in its group. This module holds such a group until it is empty, so that
the end of the session can end it too. It does not follow a process that left the group
(setsid(2)): the spawner kills those when the server ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from paddock.process.group import ProcessGroup

CHECK_S = 0.1
"""How often to check whether a group is empty: the kernel does not report it. A check is one system call
of about a microsecond: a thousand groups cost a hundredth of a processor."""


class LeftoverGroups:
    """Owns groups until they are empty. `close` lets go of the rest.

    Calls `on_fewer` when some of them have become empty.
    """

    def __init__(self, on_fewer: Callable[[], None]) -> None:
        self._on_fewer = on_fewer
        self._groups: list[ProcessGroup] = []
        self._kept: list[ProcessGroup] = []
        self._timer: asyncio.TimerHandle | None = None
        self._fewer = asyncio.Event()

    def __len__(self) -> int:
        return len(self._groups) + len(self._kept)

    @property
    def is_to_be_ended(self) -> bool:
        """Return whether there are groups that nobody asked to keep alive."""
        return bool(self._groups)

    def add(self, group: ProcessGroup, *, is_kept: bool) -> None:
        """Take over a group. A kept one outlives `terminate`."""
        (self._kept if is_kept else self._groups).append(group)
        self._check_later()

    def sweep(self) -> None:
        """Let go of groups that are empty now, or were killed: nothing more can be done about the latter."""
        self._groups = _living(self._groups)
        self._kept = _living(self._kept)

    def terminate(self, grace_s: float) -> None:
        """Send SIGTERM now and SIGKILL after the grace, except to kept groups."""
        for group in self._groups:
            group.terminate(grace_s)

    def release_kept(self) -> None:
        """Stop keeping groups: all of them end with `terminate` from now on."""
        self._groups += self._kept
        self._kept = []

    async def gone(self) -> None:
        """Wait until no group is left. For one caller at a time."""
        while len(self):
            self._fewer.clear()
            await self._fewer.wait()

    def kill(self) -> None:
        """Send SIGKILL to all, and let go of them."""
        for group in (*self._groups, *self._kept):
            group.kill()
        self.close()

    def close(self) -> None:
        """Let go of all."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for group in (*self._groups, *self._kept):
            group.close()
        self._groups, self._kept = [], []

    def _check_later(self) -> None:
        if self._timer is None and len(self):
            self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check)

    def _check(self) -> None:
        self._timer = None
        before = len(self)
        self.sweep()
        self._check_later()
        if len(self) < before:
            self._fewer.set()
            self._on_fewer()


def _living(groups: list[ProcessGroup]) -> list[ProcessGroup]:
    living = []
    for group in groups:
        if group.is_killed or not group.is_alive():
            group.close()
        else:
            living.append(group)
    return living
