"""Where commands can't be traced, it is known before anything is started."""

from __future__ import annotations

from paddock.model.host import HostFacts
from paddock.sandbox.host.tracing import TRACING_KERNEL, uninterceptable, untraceable


def facts(kernel: tuple[int, int]) -> HostFacts:
    return HostFacts("x86_64", kernel, None, can_unshare=True, can_limit_processes=True)


def test_commands_are_traced_in_namespaces_on_a_kernel_that_can_be_asked() -> None:
    assert untraceable(facts(TRACING_KERNEL), has_namespaces=True) is None


def test_an_older_kernel_and_a_host_without_namespaces_are_told_apart() -> None:
    older = untraceable(facts((5, 4)), has_namespaces=True)
    assert older is not None
    assert (older.detail, older.remedy) == (
        "this kernel can't report refused calls",
        "use Linux 5.5 or newer, or do not trace",
    )
    bare = untraceable(facts(TRACING_KERNEL), has_namespaces=False)
    assert bare is not None
    assert bare.detail == "only what bubblewrap confines can be traced"


def test_what_is_executed_is_decided_on_in_namespaces_alone() -> None:
    assert uninterceptable(facts((5, 4)), has_namespaces=True) is None
    bare = uninterceptable(facts(TRACING_KERNEL), has_namespaces=False)
    assert bare is not None
    assert bare.detail == "only what bubblewrap confines can be intercepted"
