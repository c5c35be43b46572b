"""Tells an operator, when a server starts, whether it can confine anything."""

from __future__ import annotations

import asyncio
import logging

from paddock.journal import Journal
from paddock.sandbox import probe

journal = Journal(logging.getLogger(__name__))


async def report_enforcement() -> None:
    """Probe the host in a thread, and log what came of it: a warning if there are no sandboxes to be had."""
    facts = await asyncio.to_thread(probe.host)
    level = probe.enforcement(facts)
    if level is None:
        for problem in facts.problems:
            journal.warning(
                "no sandboxes can be made; whatever asks for one is refused",
                mechanism=problem.name,
                reason=problem.detail,
                remedy=problem.remedy,
            )
        return
    journal.debug(
        "sandboxes can be made",
        enforcement=level,
        bubblewrap=facts.bwrap.path if facts.bwrap is not None else None,
        landlock=facts.landlock_abi,
    )
    for problem in facts.problems:
        journal.info(
            "sandboxes are weaker than they could be",
            mechanism=problem.name,
            reason=problem.detail,
            remedy=problem.remedy,
        )
