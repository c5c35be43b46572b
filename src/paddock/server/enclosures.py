"""What confines on a server: sandboxes for commands, and workers for operations on files.

A server of one command, and many another, confines nothing. So both are made, and their modules imported,
when a request first needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.config import Settings
    from paddock.process.spawner import Spawner
    from paddock.sandbox.plan.cap import Cap
    from paddock.server.file_workers import FileWorkers
    from paddock.server.metrics import Metrics
    from paddock.server.sandboxes import Sandboxes


class Enclosures:
    """The sandboxes and workers of one server. At its end `end_idle` must be called, and then `aclose`."""

    def __init__(self, settings: Settings, spawner: Spawner, metrics: Metrics, cap: Cap | None) -> None:
        self._settings = settings
        self._spawner = spawner
        self._metrics = metrics
        self._cap = cap
        self._sandboxes: Sandboxes | None = None
        self._file_workers: FileWorkers | None = None

    @property
    def sandboxes(self) -> Sandboxes:
        """Return what makes sandboxes for commands."""
        if self._sandboxes is None:
            from paddock.server.sandboxes import Sandboxes

            self._sandboxes = Sandboxes(self._settings, self._spawner, self._metrics, self._cap)
        return self._sandboxes

    @property
    def file_workers(self) -> FileWorkers:
        """Return what carries out operations on files under a profile."""
        if self._file_workers is None:
            from paddock.server.file_workers import FileWorkers

            self._file_workers = FileWorkers(self._spawner, self.sandboxes)
        return self._file_workers

    def count_spares(self) -> int:
        """Return how many spare sandboxes there are."""
        return 0 if self._sandboxes is None else self._sandboxes.count_spares()

    def give_up_placeholders(self) -> None:
        """Let no idle worker hold a place in the tree of a client that has disconnected."""
        if self._file_workers is not None:
            self._file_workers.give_up_placeholders()

    async def renew(self, settings: Settings, cap: Cap | None) -> None:
        """Apply these settings to what starts from now on. Raises SandboxUnenforceable, and then changes
        nothing."""
        if self._sandboxes is not None:
            await self._sandboxes.renew(settings, cap)
        self._settings, self._cap = settings, cap

    async def end_idle(self) -> None:
        """End the workers and the spare sandboxes; to be called before the spawner ends. Bounded."""
        if self._file_workers is not None:
            await self._file_workers.aclose()
        if self._sandboxes is not None:
            await self._sandboxes.end_spares()

    async def aclose(self) -> None:
        """Clear away what is left of sandboxes."""
        if self._sandboxes is not None:
            await self._sandboxes.aclose()
