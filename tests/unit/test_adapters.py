"""What all adapters share: they are thin, and nobody pays for a framework that is not used."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import paddock
from tests.docs.examples import blocks_in

ADAPTERS = Path(paddock.__file__).parent / "adapters"
ROOT = Path(__file__).parents[2]
LIMIT_LINES = 300
PAGE_LINES = 10
"""What a page promises: from an installation to a confined agent in so many lines."""
ENTRY_POINT_GROUPS = ("deepagents_code.sandbox_providers", "inspect_ai")


def test_no_adapter_is_long() -> None:
    sizes = {file.name: len(file.read_text().splitlines()) for file in ADAPTERS.glob("*.py")}
    assert "deepagents.py" in sizes
    assert {name: size for name, size in sizes.items() if size > LIMIT_LINES} == {}


def test_paddock_imports_no_adapter_by_itself() -> None:
    script = "import sys, paddock, paddock.cli.main; print([n for n in sys.modules if 'adapters' in n])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_framework_has_an_extra_and_a_page_that_is_as_short_as_it_says() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pages = {
        name: page
        for page in (ROOT / "docs" / "how-to").glob("*.md")
        for name in re.findall(r"pip install 'paddock-exec\[([\w-]+)\]'", page.read_text())
        if f"adapters.{name.replace('-', '_')} import" in page.read_text() or name == "inspect-ai"
    }
    assert len(pages) == 9
    for name, page in pages.items():
        assert (ADAPTERS / f"{name.replace('-', '_')}.py").exists()
        assert extras[name]
        code = next(blocks_in(page)).code
        assert len([line for line in code.splitlines() if line]) <= PAGE_LINES, page


def test_frameworks_find_their_adapters_by_entry_points() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group in ENTRY_POINT_GROUPS:
        module, _, name = project["entry-points"][group]["paddock"].partition(":")
        source = (ADAPTERS / f"{module.rpartition('.')[2]}.py").read_text()
        assert not name or f"class {name}(" in source
