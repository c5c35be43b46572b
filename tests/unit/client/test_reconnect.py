from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.client.reconnect import Backoff, ReconnectPolicy


def test_the_first_attempt_is_made_at_once_and_the_delays_grow_to_a_bound() -> None:
    policy = ReconnectPolicy()
    backoff = Backoff(policy, Random(1))
    delays = [backoff.next_delay_s() for _ in range(2000)]
    assert delays[0] == 0
    assert 0 < delays[1] <= policy.min_delay_s
    assert all(policy.max_delay_s / 2 <= delay <= policy.max_delay_s for delay in delays[10:])


@given(st.integers(), st.integers(2, 12))
def test_clients_that_were_cut_off_together_do_not_come_back_together(seed: int, attempt: int) -> None:
    policy = ReconnectPolicy()
    first, second = (Backoff(policy, Random(seed + n)) for n in range(2))
    delays = [[backoff.next_delay_s() for _ in range(attempt)][-1] for backoff in (first, second)]
    assert delays[0] != delays[1]


def test_a_connection_that_does_not_last_counts_as_a_failed_attempt() -> None:
    backoff = Backoff(ReconnectPolicy(max_delay_s=1.0))
    assert backoff.next_delay_s() == 0
    backoff.was_connected(lifetime_s=0.9)
    assert backoff.next_delay_s() > 0
    backoff.was_connected(lifetime_s=1.0)
    assert backoff.next_delay_s() == 0


def test_a_policy_of_no_delay_has_none() -> None:
    backoff = Backoff(ReconnectPolicy(min_delay_s=0, max_delay_s=0))
    assert {backoff.next_delay_s() for _ in range(100)} == {0}


def test_a_negative_time_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="max_delay_s must not be negative; it is -1"):
        ReconnectPolicy(max_delay_s=-1)
