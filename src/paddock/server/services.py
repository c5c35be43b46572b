"""What all connections of a server share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from paddock.config import Settings
    from paddock.fs.lanes import Lanes
    from paddock.network.turn import Turns
    from paddock.process.spawner import Spawner
    from paddock.protocol.control import ServerStatus
    from paddock.server.answer_turns import SharedAnswers
    from paddock.server.connection import HandlerTable
    from paddock.server.enclosures import Enclosures
    from paddock.server.host_rules import HostRules
    from paddock.server.memory_budget import MemoryBudget
    from paddock.server.metrics import Metrics
    from paddock.server.profiles import Profiles
    from paddock.server.sessions import SessionRegistry
    from paddock.transport.input_turns import InputTurns


class Services(Struct, frozen=True):
    """The services that all connections of a server share."""

    settings: Settings
    spawner: Spawner
    sessions: SessionRegistry
    handlers: HandlerTable
    describe_server: Callable[[], ServerStatus]
    metrics: Metrics
    lanes: Lanes
    large_answers: MemoryBudget
    profiles: Profiles
    enclosures: Enclosures
    request_turns: InputTurns
    shared_answers: SharedAnswers
    proxy_turns: Turns
    host_rules: HostRules
