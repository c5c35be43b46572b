"""Which mounts are made before bubblewrap starts."""

from __future__ import annotations

from paddock.sandbox.plan.early_mount import EARLY_FROM, split
from paddock.sandbox.plan.mount import Bind, Devices, EmptyDirectory, Mount

AROUND: list[Mount] = [
    Bind("/", is_writable=False, reason=""),
    Devices("/dev"),
    Bind("/tmp", is_writable=True, reason=""),
    Bind("/project", is_writable=True, reason=""),
]


def _protected(count: int) -> list[Mount]:
    return [Bind(f"/project/{number}", is_writable=False, reason="") for number in range(count)]


def test_few_mounts_are_left_to_bubblewrap_unless_it_has_a_namespace_anyway() -> None:
    few = _protected(2)
    assert split([*AROUND, *few], has_namespace=False) == ([], [*AROUND, *few])
    assert split([*AROUND, *few], has_namespace=True) == (few, AROUND)
    many = _protected(EARLY_FROM)
    assert split([*AROUND, *many], has_namespace=False) == (many, AROUND)


def test_only_what_a_writable_directory_carries_is_mounted_early() -> None:
    others: list[Mount] = [
        EmptyDirectory("/project/hidden", 0, ""),
        Bind("/project/hidden/shown", is_writable=False, reason=""),
        Bind("/usr", is_writable=False, reason=""),
        Bind("/usr/local", is_writable=True, reason=""),
    ]
    assert split([*AROUND, *others], has_namespace=True) == ([], [*AROUND, *others])
