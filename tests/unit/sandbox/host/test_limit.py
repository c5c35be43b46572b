"""Limits that a host can't enforce are found before anything is started."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from paddock.model.host import HostFacts
from paddock.model.profile import Limits
from paddock.sandbox.host import limit


def facts(kernel: tuple[int, int], user: int) -> HostFacts:
    counts = limit.can_count_processes(kernel, user)
    return HostFacts("x86_64", kernel, None, can_unshare=True, can_limit_processes=counts)


def test_an_ordinary_user_on_a_new_kernel_has_every_limit() -> None:
    every = Limits(memory_bytes=1, cpu_seconds=1, processes=1, file_bytes=1, open_files=1, wall_seconds=1)
    assert limit.unenforceable(every, facts((5, 14), 1000)) is None


@pytest.mark.parametrize(
    ("kernel", "user", "reason"),
    [((6, 18), 0, "root's in control groups"), ((5, 13), 1000, "all processes of the user")],
)
def test_a_limit_of_processes_that_the_kernel_would_ignore_is_refused(
    kernel: tuple[int, int], user: int, reason: str
) -> None:
    problem = limit.unenforceable(Limits(processes=10), facts(kernel, user))
    assert problem is not None
    assert reason in problem.detail
    assert "leave the limit out" in problem.remedy


def test_total_of_memory_is_refused_where_no_group_can_be_made() -> None:
    wanted, host = Limits(total_memory_bytes=1), facts((6, 1), 1000)
    assert limit.unenforceable(wanted, host) == limit.MEMORY_PROBLEM
    assert limit.unenforceable(wanted, replace(host, memory_cgroup="/sys/fs/cgroup")) is None


def test_limits_without_processes_hold_for_root_on_any_kernel() -> None:
    assert limit.unenforceable(Limits(memory_bytes=1, wall_seconds=1), facts((4, 19), 0)) is None
