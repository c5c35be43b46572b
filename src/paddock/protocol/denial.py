"""What a sandbox kept a process from, as clients are told.

Clients without extensions learn no more than that it happened, in `sandboxDenied`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from paddock.model import denial as model
from paddock.model.denial import DenialKind
from paddock.protocol.structure import Result


class Denial(Result, frozen=True, kw_only=True):
    """One thing that a process wanted and its profile refuses."""

    kind: DenialKind
    """What it wanted to do."""
    target: str | None
    """With which path, address or system call, as the process saw it; null if that is not known."""
    rule: str | None
    """What refuses it, in the words of the profile, such as `/repo/a = deny`; null if that is not known."""
    certain: bool
    """Whether it follows from the profile; otherwise it is a guess from what the process wrote."""


def decode_denial(denial: Denial) -> model.Denial:
    """What one of them means."""
    return model.Denial(denial.kind, denial.target, denial.rule, denial.certain)


def encode_denials(denials: Sequence[model.Denial]) -> list[Denial] | UnsetType:
    """The wire's form, in the same order; without any, the field is left out."""
    return (
        UNSET
        if not denials
        else [
            Denial(kind=denial.kind, target=denial.target, rule=denial.rule, certain=denial.is_certain)
            for denial in denials
        ]
    )
