"""What a sandbox kept a command from that has ended: brings together what it said, its plan and its trace.

Blocks while the paths that the command named are looked up. Loaded when the first command has failed in a
sandbox, for most never do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from paddock.model.denial import Denial
from paddock.model.stream import Stream
from paddock.sandbox.confined import Confined
from paddock.sandbox.cover import Cover
from paddock.sandbox.denial import Ended, Said, explain, merge
from paddock.sandbox.invocation import Invocation
from paddock.sandbox.path import ROOT
from paddock.sandbox.place import real_paths
from paddock.sandbox.policy import Policy

SCANNED_BYTES = 64 * 1024
"""Of the end of each stream, where a command says what has failed."""


def denials_of(
    confined: Confined,
    argv: Sequence[str],
    exit_code: int,
    output: Mapping[Stream, bytes],
    *,
    is_suspected: bool,
) -> tuple[Denial, ...]:
    """What the command was kept from; `is_suspected` if the reference would say that it was.

    One that ended well says nothing that counts, but was perhaps seen.
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
    cover = None if plan is None else Cover(plan.mounts, plan.placeholders)
    told = explain(ended, policy, partial(real_paths, cover=cover))
    return merge(told, confined.trace.denials) if confined.is_traced else told
