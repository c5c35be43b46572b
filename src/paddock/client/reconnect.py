"""How hard a client tries to restore a lost connection. Pure: the caller sleeps and dials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from random import Random

GROWTH: Final = 2.0
"""Each delay may be twice as long as the one before."""


class ReconnectPolicy(Struct, frozen=True, kw_only=True):
    """When to try again, and for how long."""

    max_time_s: float = 25.0
    """How long to keep trying after a loss; less than the 30 s for which servers keep a session by default.
    """

    first_delay_s: float = 0.0
    """The delay before the first attempt, unless the lost connection was itself short-lived."""

    min_delay_s: float = 0.05
    """The longest delay before the second attempt; it grows from there."""

    max_delay_s: float = 1.0
    """The longest delay between two attempts. A connection that lasts less than this counts as a failed
    attempt."""

    attached_delay_s: float = 0.1
    """The delay before asking again for a session that the server believes is still in use."""

    new_session: bool = True
    """Whether to open a new session when the server no longer has the old one. The old session's processes
    are lost in any case. With a new session, later calls work; otherwise every call raises ConnectionLost."""

    on_change: Callable[[bool], None] | None = None
    """Called with False as soon as the connection is lost, and with True when it is restored. It must not
    block."""

    def __post_init__(self) -> None:
        for name in ("max_time_s", "first_delay_s", "min_delay_s", "max_delay_s", "attached_delay_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative; it is {getattr(self, name)!r}")


class Backoff:
    """The delays before one attempt after another."""

    def __init__(self, policy: ReconnectPolicy, random: Random | None = None) -> None:
        self._policy = policy
        self._random = random
        self._attempts = 0

    def next_delay_s(self) -> float:
        """Return how long to wait before the next attempt."""
        policy = self._policy
        self._attempts += 1
        if self._attempts == 1:
            return policy.first_delay_s
        # The exponent is bounded: a power of two with a thousand bits does not fit a float.
        longest_s = min(policy.max_delay_s, policy.min_delay_s * GROWTH ** min(self._attempts - 2, 64))
        if self._random is None:
            # Few connections are ever lost.
            from random import Random

            self._random = Random()
        # Clients that were cut off together must not come back together.
        return longest_s * self._random.uniform(0.5, 1.0)

    def was_connected(self, lifetime_s: float) -> None:
        """Begin anew, after a connection that lasted."""
        if lifetime_s >= self._policy.max_delay_s:
            self._attempts = 0
