"""What a sandbox kept a process from, in the form that clients receive.

Clients without extensions learn only that it happened, from `sandboxDenied`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from paddock.model import denial as model
from paddock.model.denial import DenialKind
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.protocol.structure import Result


class Denial(Result, frozen=True, kw_only=True):
    """One thing that a process wanted and its profile refuses."""

    kind: DenialKind
    """What it wanted to do."""
    target: str | None
    """The path, address or system call, as the process saw it; null if unknown."""
    rule: str | None
    """The rule that refuses it, in the words of the profile, such as `/repo/a = deny`; null if unknown."""
    certain: bool
    """Whether the profile implies the denial; otherwise it is a guess from the output of the process."""
    host: str | UnsetType = UNSET
    """The host that it wanted to reach through its proxy, by name or address; absent otherwise."""
    port: int | UnsetType = UNSET
    """The port."""
    protocol: NetworkProtocol | UnsetType = UNSET
    """The protocol that it used with the proxy."""
    grant: str | UnsetType = UNSET
    """The path that a profile must grant for this to work, which may be a directory above `target`; absent
    if unknown, or if that grant would not be enough."""


def decode_denial(denial: Denial) -> model.Denial:
    """Decode one denial."""
    endpoint = None
    if denial.host is not UNSET and denial.port is not UNSET and denial.protocol is not UNSET:
        endpoint = Endpoint(denial.host, denial.port, denial.protocol)
    return model.Denial(
        denial.kind, denial.target, denial.rule, denial.certain, endpoint, denial.grant or None
    )


def encode_denials(denials: Sequence[model.Denial]) -> list[Denial] | UnsetType:
    """Encode denials in the same order; leave the field out if there are none."""
    return UNSET if not denials else [_encode(denial) for denial in denials]


def _encode(denial: model.Denial) -> Denial:
    endpoint = denial.endpoint
    return Denial(
        kind=denial.kind,
        target=denial.target,
        rule=denial.rule,
        certain=denial.is_certain,
        host=UNSET if endpoint is None else endpoint.host,
        port=UNSET if endpoint is None else endpoint.port,
        protocol=UNSET if endpoint is None else endpoint.protocol,
        grant=UNSET if denial.grant is None else denial.grant,
    )
