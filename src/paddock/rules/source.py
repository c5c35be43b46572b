"""A policy that follows its files: it reloads by itself when one of them changes.

Code that decides holds a `RulesSource` and reads its `policy` each time; a policy never changes
once read. Nothing polls: the kernel reports changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from paddock.errors import RulesError
from paddock.journal import Journal
from paddock.rules.directory_watch import DirectoryWatch
from paddock.rules.layer import Layer
from paddock.rules.loader import load_layers
from paddock.rules.policy import Policy, Problem

journal = Journal(logging.getLogger(__name__))

SETTLING_S = 0.05
"""An editor saves in several steps, and a checkout writes many files."""

RETRY_S = 30.0
"""How soon to reload files after a failure that is not their fault, such as a lack of descriptors."""

Fingerprint = tuple[tuple[str, int, int, int], ...]


class RulesSource:
    """The policy of some layers. Made once; `reload` or `followed` bring it up to date.

    `on_change` gets each policy that comes into force, in the thread that has loaded it.
    """

    def __init__(
        self, layers: Iterable[Layer], on_change: Callable[[Policy], None] = lambda policy: None
    ) -> None:
        self.layers = tuple(layers)
        self.policy = Policy()
        """The policy in force now. Empty until the first load."""
        self._on_change = on_change
        self._fingerprint: Fingerprint | None = None

    def reload(self) -> Policy:
        """Reload every file, and block meanwhile. Raises RulesError, and then changes nothing."""
        fingerprint = self._take_fingerprint()
        policy = load_layers(self.layers)
        self._put_in_force(policy, fingerprint)
        return policy

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[RulesSource]:
        """Keep the policy up to date for the time of the `async with` block.

        Raises RulesError if nothing can be loaded or watched in the first place. Later a failure
        leaves the rules in force and counts as a broken file.
        """
        with DirectoryWatch([layer.directory for layer in self.layers]) as watch:
            # Watch before reading: a change in between causes another read.
            await asyncio.to_thread(self._catch_up)
            follower = asyncio.create_task(self._follow(watch))
            try:
                yield self
            finally:
                follower.cancel()
                await asyncio.wait([follower])

    def _catch_up(self) -> None:
        """Reload, unless nothing has changed since somebody did."""
        if self._fingerprint is None or self._fingerprint != self._take_fingerprint():
            self.reload()

    async def _follow(self, watch: DirectoryWatch) -> None:
        while True:
            await self._change(watch)
            try:
                watch.renew()
                fingerprint = await asyncio.to_thread(self._take_fingerprint)
                if fingerprint == self._fingerprint:
                    continue
                policy = await asyncio.to_thread(load_layers, self.layers)
            # Catch everything: a source that no longer follows must not look like one that does.
            except Exception as error:
                self._put_in_force(self._complaining(error), None)
            else:
                self._put_in_force(policy, fingerprint)
            # Whoever calls `reload` sees its result; of this nobody else would tell.
            journal.info("rules loaded", rules=len(self.policy.rules), broken=len(self.policy.problems))
            for problem in self.policy.problems:
                journal.warning("rules broken", path=problem.path, reason=str(problem))

    async def _change(self, watch: DirectoryWatch) -> None:
        """Wait until something has changed and settled, or it is time to try again."""
        has_failed = self._fingerprint is None
        try:
            async with asyncio.timeout(RETRY_S if has_failed else None):
                await watch.changed()
        except TimeoutError:
            return
        await asyncio.sleep(SETTLING_S)

    def _complaining(self, error: Exception) -> Policy:
        """Return the policy in force, plus a problem that says it may be incomplete."""
        old = self.policy
        problem = Problem(", ".join(str(layer.directory) for layer in self.layers), str(error))
        return Policy(old.rules, old.host_executables, old.network_rules, [problem])

    def _put_in_force(self, policy: Policy, fingerprint: Fingerprint | None) -> None:
        self.policy = policy
        self._fingerprint = fingerprint
        self._on_change(policy)

    def _take_fingerprint(self) -> Fingerprint:
        """Return a value that changes with the set of files, their content and who may change them."""
        marks = []
        for layer in self.layers:
            try:
                status = layer.directory.stat()
                # Leave out its times, which change with every file, even one that is not a file of rules.
                marks.append((str(layer.directory), status.st_ino, status.st_uid, status.st_mode))
                files = layer.files()
            except (OSError, RulesError):
                continue
            for path in files:
                try:
                    status = path.stat(follow_symlinks=False)
                except OSError:
                    continue
                # The change time covers content, owner and mode.
                marks.append((str(path), status.st_ino, status.st_size, status.st_ctime_ns))
        return tuple(marks)
