"""Tests that a framework ships with its source only, as `make ecosystem` has unpacked them."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

UPSTREAM = Path(__file__).resolve().parent.parent.parent / ".ecosystem" / "upstream"


def upstream_tests(package: str, name: str, **helpers: dict[str, Any]) -> ModuleType:
    """Import a file of tests. `helpers` are modules that it imports and the source does not have, by name.

    A name that begins with an underscore is one of the tests' own package; `__` stands for a dot.
    """
    folder = f"upstream_{package}"
    _module(folder).__path__ = [str(UPSTREAM / package)]
    for helper, content in helpers.items():
        full = f"{folder}{helper}" if helper.startswith("_") else helper
        vars(_module(full.replace("__", "."))).update(content)
    spec = spec_from_file_location(f"{folder}.{name}", UPSTREAM / package / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    return sys.modules.setdefault(name, ModuleType(name))
