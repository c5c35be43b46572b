"""The files and layers that the documents of the project name are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "paddock"
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
BASES = (ROOT, PACKAGE, PACKAGE / "sandbox")
FILES_LIMIT = 8
"""A change that touches more shows that something is written in too many places."""

_NAMED = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|h|c|md|toml|sh))`")


def test_every_file_that_a_page_names_is_there() -> None:
    missing = [
        f"{page}: {name}"
        for page in PAGES
        for name in _NAMED.findall((ROOT / page).read_text())
        if not any((base / name).exists() for base in BASES)
    ]
    assert missing == []


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(contract["layers"] for contract in contracts if contract["containers"] == ["paddock"])


def test_layers_that_are_told_are_those_that_are_enforced() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    told = re.findall(r"^ {4}(\w+(?: \| \w+)*)(?=$| {2})", text, re.MULTILINE)
    assert told[: len(layers())] == layers()


def changes() -> dict[str, list[str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    _, _, rest = text.partition("## Five changes a newcomer makes\n")
    section, _, _ = rest.partition("\n## ")
    parts = re.split(r"^\*\*(.+?)\*\*", section, flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^- `([^`]+)`", items, re.MULTILINE)
        for title, items in zip(parts[::2], parts[1::2], strict=True)
    }


def test_five_changes_are_told() -> None:
    assert len(changes()) == 5


@pytest.mark.parametrize("title", changes())
def test_change_of_a_newcomer_touches_few_files_and_they_are_there(title: str) -> None:
    files = changes()[title]
    assert 0 < len(files) <= FILES_LIMIT
    assert [name for name in files if not (ROOT / name).is_file()] == []
