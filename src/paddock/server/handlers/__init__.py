"""One file per family of methods: decode, call the engine, encode - nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paddock.server.connection import HandlerTable

MODULES: Final = (
    ("control", ("control/",)),
    ("discovery", ("environmentConfig/", "capabilityRoots/", "capabilities/")),
    ("environment", ("initialize", "environment/")),
    ("fetch", ("http/",)),
    ("fs_handle", ("fs/open", "fs/readBlock", "fs/writeBlock", "fs/close")),
    ("fs_text", ("fs/search", "fs/edit")),
    ("watch", ("fs/watch", "fs/unwatch")),
    ("fs", ("fs/",)),
    ("network", ("network/",)),
    ("process", ("process/",)),
)
"""The modules beside this one, with the prefixes of their methods' names. The first match has the method."""


class Handlers(dict[str, Any]):
    """Every method that this version offers, with the function that carries it out.

    A module is imported when one of its methods is first asked for, unless `load_all` has been called.
    """

    def __missing__(self, method: str) -> Any:
        module = next(module for module, beginnings in MODULES if method.startswith(beginnings))
        self.update(_handlers_in(module))
        return self[method]

    def load_all(self) -> None:
        """Import all modules, so that no client waits for it."""
        for module, _ in MODULES:
            self.update(_handlers_in(module))


def _handlers_in(module: str) -> HandlerTable:
    handlers: HandlerTable = import_module(f"{__name__}.{module}").HANDLERS
    return handlers
