"""The audit log of a server, if its settings ask for one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from paddock.config import Settings
from paddock.model.audit_failure import AuditFailure
from paddock.version import __version__

if TYPE_CHECKING:
    from paddock.audit.writer import Audit


@asynccontextmanager
async def audited(settings: Settings) -> AsyncIterator[Audit | None]:
    """Open the log for the duration of the block; yield None if the settings want none. Raises
    AuditLogError."""
    if settings.audit_log is None:
        yield None
        return
    from pathlib import Path

    from paddock.audit.writer import Audit, AuditOptions

    audit = await Audit.open(
        AuditOptions(
            directory=Path(settings.audit_log),
            segment_limit_bytes=settings.audit_segment_bytes,
            is_synced=settings.audit_sync,
            # Settings made in a program may hold the plain word.
            failure=AuditFailure(settings.audit_failure),
            secret_names=settings.audit_secret_names,
            version=__version__,
        )
    )
    try:
        yield audit
    finally:
        await audit.aclose()
