"""Tells an operator, when a server starts, whether it can confine anything."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress

from paddock.config import Settings
from paddock.errors import ListenError
from paddock.journal import Journal
from paddock.model.host import HostFacts
from paddock.sandbox.host import probe
from paddock.sandbox.plan import landlock
from paddock.transport import runtime_directory

journal = Journal(logging.getLogger(__name__))


async def report_enforcement(settings: Settings) -> str | None:
    """Probe the host in a thread, and log the result: a warning if the server can make no sandboxes.

    Returns why there are none.
    """
    try:
        facts = await asyncio.to_thread(_probe)
    except OSError as error:
        journal.warning("whether sandboxes can be made is not known yet", reason=error.strerror or str(error))
        return None
    if settings.use_legacy_landlock:
        return _report_landlock_alone(facts)
    level = probe.enforcement(facts)
    if level is None:
        for problem in facts.problems:
            journal.warning(
                "no sandboxes can be made; whatever asks for one is refused",
                mechanism=problem.name,
                reason=problem.detail,
                remedy=problem.remedy,
            )
        return "; ".join(problem.detail for problem in facts.problems)
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
    return None


def _probe() -> HostFacts:
    directory = None
    with suppress(ListenError):
        directories = runtime_directory.candidates(os.environ, os.getuid())
        directory = runtime_directory.provide(directories, os.getuid())
    return probe.host(memory_directory=directory)


def _report_landlock_alone(facts: HostFacts) -> str | None:
    if facts.landlock_abi < landlock.ALONE_ABI:
        reason = f"use_legacy_landlock is set, and this kernel's Landlock has the ABI {facts.landlock_abi}"
        journal.warning(
            "no sandboxes can be made; whatever asks for one is refused",
            mechanism="landlock",
            reason=reason,
            remedy="switch use_legacy_landlock off, or use Linux 6.2 or newer",
        )
        return reason
    journal.info(
        "sandboxes are weaker than they could be",
        mechanism="landlock",
        reason="use_legacy_landlock is set",
        remedy="switch it off if bubblewrap works here: paddock doctor",
    )
    return None
