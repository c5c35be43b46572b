"""Postpones the import of modules that asyncio, msgspec and Paddock import, and that most commands never use.

They take nearly half of the time that asyncio takes. In the place of each stands an empty module, which
imports the real one when somebody first asks it for a name.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

SELDOM_USED: Final = ("inspect", "locale", "msgspec.inspect", "pybase64", "ssl", "textwrap", "tokenize")
"""These are for TLS, long messages, callbacks that are no coroutines, schemas, and the words about faults."""

_TLS: Final = "asyncio.sslproto"
"""The one module of asyncio that uses `ssl` as soon as it is imported."""

_importing: Final = RLock()
"""Held during an import: another thread must find either the empty module or the whole of the real one."""


class LateModule(ModuleType):
    """Stands for a module until somebody asks for a name in it, and from then on has the names of the real
    one."""

    def __getattr__(self, name: str) -> Any:
        with _importing:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            value = getattr(import_module(self.__name__), name)
        # Not asked for again: this is only called for names that are missing.
        setattr(self, name, value)
        return value


def postpone() -> None:
    """Let the modules that are not imported yet be imported when they are used."""
    for name in SELDOM_USED:
        _postpone(name)


def import_asyncio() -> None:
    """Import asyncio without its TLS, for a verb whose loop is asyncio's own. `postpone` comes before."""
    if "asyncio" in sys.modules:
        return
    _postpone(_TLS)
    # An import sets the attribute of the package.
    setattr(import_module("asyncio"), _TLS.rpartition(".")[2], sys.modules[_TLS])


def _postpone(name: str) -> None:
    if name in sys.modules:
        return
    module = sys.modules[name] = LateModule(name)
    package, *rest = name.split(".")
    is_standard = package in sys.stdlib_module_names
    # `installation` looks where every module is from, and that must not import it.
    module.__file__ = (
        os.path.join(os.path.dirname(os.__file__), package, *rest) + ".py" if is_standard else None
    )
