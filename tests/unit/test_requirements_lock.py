"""Whether a machine that has no package yet can be set up from requirements.lock alone.

With hashes pip installs just what is pinned, and takes `name[extra]` for another thing than `name`. `make
setup` starts from an environment of an earlier clone where there is one, so only a new machine would
notice that something is missing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

EXTRAS = ("credentials", "mcp", "rules")
GROUPS = ("dev", "bench")
"""What the lock pins, as `scripts/lock.sh` says. The frameworks of the adapters have a lock of their own."""


def _pins(lock: str) -> dict[str, Requirement]:
    lines = (line.removesuffix("\\") for line in lock.splitlines() if line and line[0] not in " #")
    pinned = map(Requirement, lines)
    return {
        canonicalize_name(requirement.name): requirement for requirement in pinned if _applies(requirement)
    }


def _applies(requirement: Requirement, extras: frozenset[str] = frozenset()) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})


def _wanted(pins: dict[str, Requirement]) -> Iterator[Requirement]:
    """What the project and each package of the lock ask for, on this machine."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    lists = [
        project["project"]["dependencies"],
        *(extras[name] for name in EXTRAS),
        *(groups[name] for name in GROUPS),
    ]
    yield from (Requirement(text) for texts in lists for text in texts)
    for name, pin in pins.items():
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            if _applies(requirement, frozenset({"", *pin.extras})):
                yield requirement


def _missing(lock: str) -> list[str]:
    pins = _pins(lock)
    return [
        str(wanted)
        for wanted in _wanted(pins)
        if (pin := pins.get(canonicalize_name(wanted.name))) is None or not wanted.extras <= pin.extras
    ]


def test_all_that_a_pinned_package_needs_is_pinned_with_its_extras() -> None:
    assert _missing((ROOT / "requirements.lock").read_text()) == []


@pytest.mark.parametrize("extra", ["[asyncio]", "[toml]"])
def test_pin_without_an_extra_that_somebody_needs_is_found(extra: str) -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert extra in lock
    assert any(extra in wanted for wanted in _missing(lock.replace(extra, "")))


def test_package_that_is_not_pinned_is_found() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "\nmsgspec==" in lock
    assert any(
        wanted.startswith("msgspec") for wanted in _missing(lock.replace("\nmsgspec==", "\n# msgspec=="))
    )
