"""Attach, detach, resume, expire: every order of them, in virtual time."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paddock.config import Settings
from paddock.errors import SessionAttached, UnknownSession
from paddock.process.description import Description
from paddock.process.group import ProcessGroup
from paddock.process.spawner import ExitReport
from paddock.protocol.structure import Result
from paddock.server.metrics import Metrics
from paddock.server.session import Session
from paddock.server.sessions import SessionRegistry

TTL_S = 30.0
GRACE_S = 2.0
CLOSED_TTL_S = 10.0


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands still until a test moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    def time(self) -> float:
        return self.now_s

    def settle(self) -> None:
        """Let everything happen that is due."""
        for _ in range(5):
            self.run_until_complete(asyncio.sleep(0))

    def advance(self, seconds: float) -> None:
        """Move the clock in small steps, so that timers fire in order."""
        target = self.now_s + seconds
        while self.now_s < target:
            self.now_s = min(self.now_s + 1.0, target)
            self.settle()


class FakeGroup(ProcessGroup):
    """A process that heeds SIGTERM only if it was made so, and SIGKILL always."""

    def __init__(self, number: int) -> None:
        super().__init__(number, -1)
        self.signals: list[int] = []

    def signal(self, number: int) -> bool:
        self.signals.append(number)
        return True

    def is_alive(self) -> bool:
        return False


class Client:
    """An outbox that remembers what it was told."""

    is_congested = False
    has_extensions = False

    def __init__(self) -> None:
        self.told: list[str] = []

    def notify(self, method: str, params: Result, *, is_optional: bool = False) -> None:
        self.told.append(method)

    def give_way(self) -> None:
        """It answers every ping."""


class Tracked:
    """What the model knows of one process."""

    def __init__(self, managed: Any, group: FakeGroup, *, is_kept: bool) -> None:
        self.managed = managed
        self.group = group
        self.is_kept = is_kept

    @property
    def is_running(self) -> bool:
        running: bool = self.managed.is_running
        return running


class SessionLife(RuleBasedStateMachine):
    """One session, its client coming and going, its processes starting and ending."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.registry: SessionRegistry
        self.session: Session
        self.client: Client | None = Client()
        self.detached_at_s: float | None = None
        self.processes: list[Tracked] = []
        self.loop.run_until_complete(self.open())

    async def open(self) -> None:
        settings = Settings(
            session_ttl_s=TTL_S,
            shutdown_grace_period_ms=int(GRACE_S * 1000),
            closed_process_ttl_s=CLOSED_TTL_S,
            kept_process_ttl_s=CLOSED_TTL_S,
        )
        self.registry = SessionRegistry(settings, Metrics())
        assert self.client is not None
        self.session = self.registry.open(self.client)

    def teardown(self) -> None:
        # The end of a session waits for them, and the clock stands still.
        for process in self.processes:
            if process.is_running:
                process.managed.exited(ExitReport(0, 0.0, 0.0, 0))
        self.loop.run_until_complete(self.registry.end_all(0))
        self.loop.settle()
        self.loop.close()

    # --- the model ----------------------------------------------------------

    @property
    def is_expired(self) -> bool:
        return self.detached_at_s is not None and self.loop.now_s >= self.detached_at_s + TTL_S

    @property
    def is_known(self) -> bool:
        return self.session in self.registry.sessions

    # --- rules --------------------------------------------------------------

    @precondition(lambda self: self.client is not None)
    @rule()
    def lose_the_connection(self) -> None:
        self.session.detach()
        self.client = None
        self.detached_at_s = self.loop.now_s

    @rule()
    def come_back(self) -> None:
        visitor = Client()
        has_kept = any(process.is_kept and process.is_running for process in self.processes)
        if self.client is not None:
            with pytest.raises(SessionAttached):
                self.registry.resume(self.session.id, visitor)
        elif not self.is_expired or has_kept:
            assert self.registry.resume(self.session.id, visitor) is self.session
            assert visitor.told == []
            self.client, self.detached_at_s = visitor, None
        elif not any(process.is_kept for process in self.processes):
            with pytest.raises(UnknownSession):
                self.registry.resume(self.session.id, visitor)

    @precondition(lambda self: self.client is not None and len(self.processes) < 6)
    @rule(is_kept=st.booleans())
    def start_a_process(self, is_kept: bool) -> None:
        number = len(self.processes) + 1
        description = Description(str(number), ["x"], "/", is_terminal=False, is_kept_alive=is_kept)
        self.loop.run_until_complete(self.admit(description, number, is_kept))

    async def admit(self, description: Description, number: int, is_kept: bool) -> None:
        managed = self.session.admit(description).managed
        group = FakeGroup(number)
        managed.adopt(group, [], None, -1)
        managed.begin()
        self.processes.append(Tracked(managed, group, is_kept=is_kept))

    @precondition(lambda self: any(process.is_running for process in self.processes))
    @rule(data=st.data())
    def a_process_ends(self, data: st.DataObject) -> None:
        running = [process for process in self.processes if process.is_running]
        process = data.draw(st.sampled_from(running))
        before = len(self.client.told) if self.client is not None else 0
        process.managed.exited(ExitReport(0, 0.0, 0.0, 0))
        if self.client is not None:
            assert self.client.told[before:] == ["process/exited", "process/closed"]

    @rule(seconds=st.sampled_from([0.5, 3.0, 29.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.advance(seconds)

    # --- what is always true ------------------------------------------------

    @invariant()
    def processes_are_ended_when_the_session_expires_and_not_before(self) -> None:
        for process in self.processes:
            if not self.is_expired and process.is_running and self.client is None:
                continue
            if self.is_expired and process.is_running and not process.is_kept:
                assert signal.SIGTERM in process.group.signals
            if process.is_kept and process.is_running:
                assert process.group.signals == []

    @invariant()
    def whoever_outlives_the_grace_is_killed(self) -> None:
        if self.detached_at_s is None or self.loop.now_s < self.detached_at_s + TTL_S + GRACE_S:
            return
        for process in self.processes:
            if process.is_running and not process.is_kept:
                assert signal.SIGKILL in process.group.signals

    @invariant()
    def an_attached_or_waiting_session_is_known(self) -> None:
        if self.client is not None or not self.is_expired:
            assert self.is_known

    @invariant()
    def a_session_that_is_over_is_forgotten(self) -> None:
        has_kept = any(process.is_kept for process in self.processes)
        is_running = any(process.is_running for process in self.processes)
        if self.is_expired and not is_running and not has_kept:
            assert not self.is_known


TestSessionLife = SessionLife.TestCase
TestSessionLife.settings = settings(max_examples=30)
"""Fifty steps each. The measurement of lines makes each of them several times as long."""
