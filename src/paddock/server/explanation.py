"""Explains what a sandbox denied a command that has ended, from the command's output, its plan and its trace.

Blocks while it looks up the paths that the command named. Loaded when the first command has failed in a
sandbox, for most never do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from paddock.model.denial import Denial
from paddock.model.stream import Stream
from paddock.sandbox.denial.denial import Ended, Said, explain, merge
from paddock.sandbox.denial.invocation import Invocation
from paddock.sandbox.denial.mount_overlay import MountOverlay
from paddock.sandbox.denial.policy import Policy
from paddock.sandbox.denial.resolution import resolutions
from paddock.sandbox.enforce.confined import Confined
from paddock.sandbox.profile.path import ROOT

SCANNED_BYTES = 64 * 1024
"""How much of the end of each stream is scanned, where a command says what has failed."""


def denials_of(
    confined: Confined,
    argv: Sequence[str],
    exit_code: int,
    output: Mapping[Stream, bytes],
    *,
    is_suspected: bool,
) -> tuple[Denial, ...]:
    """Return what the sandbox denied the command; `is_suspected` if the reference would say that it denied
    something.

    The output of a command that succeeded does not count; its trace does.
    """
    if exit_code == 0:
        return merge((), confined.trace.denials)
    said = [
        Said(data[-SCANNED_BYTES:].decode("utf-8", "replace"), stream is Stream.STDERR)
        for stream, data in output.items()
    ]
    plan = confined.plan
    ended = Ended(exit_code, Invocation(argv, ROOT if plan is None else plan.cwd), said, is_suspected)
    policy = None if plan is None else Policy(plan)
    overlay = None if plan is None else MountOverlay(plan.mounts, plan.placeholders)
    told = explain(ended, policy, partial(resolutions, overlay=overlay))
    return merge(told, confined.trace.denials) if confined.is_traced else told
