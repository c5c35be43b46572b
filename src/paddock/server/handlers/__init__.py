"""One file per family of methods: decode, call the engine, encode - nothing else."""

from __future__ import annotations

from paddock.server.connection import HandlerTable
from paddock.server.handlers import (
    control,
    discovery,
    environment,
    fetch,
    fs,
    fs_handle,
    fs_text,
    network,
    process,
    watch,
)


def handler_table() -> HandlerTable:
    """Return every method that this version offers, with what carries it out."""
    return {
        **environment.HANDLERS,
        **process.HANDLERS,
        **network.HANDLERS,
        **fetch.HANDLERS,
        **discovery.HANDLERS,
        **control.HANDLERS,
        **fs.HANDLERS,
        **fs_handle.HANDLERS,
        **fs_text.HANDLERS,
        **watch.HANDLERS,
    }
