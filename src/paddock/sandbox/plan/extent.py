"""Measures how far a profile reaches, and whether that is further than another one allows.

The comparison is about what two profiles grant in the end, not how they are written. In both the most
specific rule decides, so it is enough to look at the paths that either names. Rules are about resolved paths:
whoever makes an extent has followed the links. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from paddock.model.profile import Access, Limits, NetworkMode
from paddock.sandbox.profile.access import AccessTable, Rule
from paddock.sandbox.profile.path import DEV, KERNEL_OBJECTS, ROOT, ancestors, depth, is_within

_ORDER: Final = {Access.DENY: 0, Access.READ: 1, Access.WRITE: 2}
_NETWORK_ORDER: Final = {
    NetworkMode.RESTRICTED: 0,
    NetworkMode.LOOPBACK: 1,
    # The proxy decides about each host at each connection, by the cap's lists as well.
    NetworkMode.PROXIED: 2,
    NetworkMode.ENABLED: 3,
}
_WORDS: Final = {Access.DENY: "none", Access.READ: "read", Access.WRITE: "write"}


class Extent(Struct, frozen=True):
    """Everything that a profile grants on a host."""

    rules: tuple[Rule, ...]
    network: NetworkMode
    limits: Limits


def exceeds(wanted: Extent, cap: Extent) -> str | None:
    """Return the first thing that `wanted` grants and `cap` does not, in words; None if there is nothing."""
    return next(_excesses(wanted, cap), None)


def _excesses(wanted: Extent, cap: Extent) -> Iterator[str]:
    yield from _file_excesses(AccessTable(wanted.rules), AccessTable(cap.rules))
    if _NETWORK_ORDER[wanted.network] > _NETWORK_ORDER[cap.network]:
        yield f"the network {wanted.network}, where the most is {cap.network}"
    given = asdict(wanted.limits)
    for (name, most), wire_name in zip(
        asdict(cap.limits).items(), Limits.__struct_encode_fields__, strict=True
    ):
        if most is None:
            continue
        if given[name] is None:
            yield f"no limit {wire_name}, where the most is {most}"
        elif given[name] > most:
            yield f"the limit {wire_name} of {given[name]}, where the most is {most}"


def _file_excesses(wanted: AccessTable, cap: AccessTable) -> Iterator[str]:
    named = {rule.path for table in (wanted, cap) for rule in table.rules}
    for path in sorted({ROOT, DEV, KERNEL_OBJECTS, *named}, key=lambda path: (depth(path), path)):
        most = _access(cap, path)
        access = Access.WRITE if _may_be_remade(wanted, cap, path) else _access(wanted, path)
        if _ORDER[access] > _ORDER[most]:
            yield f"{_WORDS[access]} access to {path}, where the most is {_WORDS[most]}"


def _access(table: AccessTable, path: str) -> Access:
    rule = table.rule_of(path)
    if rule is None:
        return Access.DENY
    # A grant to write everything leaves out the kernel's devices and settings, which must be named.
    is_kernels = rule.path == ROOT and (is_within(path, DEV) or is_within(path, KERNEL_OBJECTS))
    return Access.READ if is_kernels and rule.access is Access.WRITE else rule.access


def _may_be_remade(wanted: AccessTable, cap: AccessTable, path: str) -> bool:
    """Return whether the path is protected only while it exists, and the cap protects it better."""
    return any(
        _is_lenient(rule)
        and not _is_lenient(cap.rule_of(protected))
        and wanted.access_around(protected) is Access.WRITE
        for protected in (path, *ancestors(path))
        if (rule := wanted.rule_of(protected)) is not None and rule.path == protected
    )


def _is_lenient(rule: Rule | None) -> bool:
    return rule is not None and rule.skips_missing and not rule.is_metadata
