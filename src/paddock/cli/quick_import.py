"""Imports msgspec without what takes half of the time and is not needed.

Nearly every verb needs it, before it imports anything else of Paddock's.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def import_msgspec() -> None:
    """Import it.

    It prefers typing_extensions to `typing`, which has the same since Python 3.11. The `uuid` that it imports
    asks `platform` for the name of the system, in some versions of Python. Of `datetime`, whose classes in C
    replace those in Python, it uses the former.
    """
    stand_ins: dict[str, Any] = {
        "typing_extensions": None,
        "platform": SimpleNamespace(system=lambda: "Linux"),
        "datetime": import_module("_datetime"),
    }
    missing = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(missing)
    try:
        import_module("msgspec")
    finally:
        for name in missing:
            del sys.modules[name]
