"""Every example in the documents runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.examples import SHELL_TIMEOUT_S, Block, blocks_in

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# These need their framework, and run with its suite.
FRAMEWORK_PAGES = {
    ROOT / "docs" / "how-to" / f"{adapter.stem.replace('_', '-')}.md"
    for adapter in (ROOT / "src" / "paddock" / "adapters").glob("*.py")
}
PAGES_WITH_EXAMPLES = [page for page in PAGES if page not in FRAMEWORK_PAGES and any(blocks_in(page))]


@pytest.mark.timeout(2 * SHELL_TIMEOUT_S)
@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_in(page):
        printed = block.run(names, tmp_path)
        if block.output is not None:
            assert printed == block.output, f"{page.name}, line {block.line}"


def page_of(tmp_path: Path, text: str) -> list[Block]:
    page = tmp_path / "page.md"
    page.write_text(text)
    return list(blocks_in(page))


def test_a_block_is_found_with_its_place_and_its_output(tmp_path: Path) -> None:
    (block,) = page_of(tmp_path, "# Title\n\n```python\nprint(1)\n```\n\n```output\n1\n```\n")

    assert (block.line, block.code, block.output) == (3, "print(1)\n", "1\n")
    assert block.run({}, tmp_path) == "1\n"


def test_a_block_that_is_not_to_be_run_is_left_out(tmp_path: Path) -> None:
    assert page_of(tmp_path, "<!-- not run: a fragment -->\n```python\n...\n```\n") == []


def test_code_that_is_not_shown_runs_first(tmp_path: Path) -> None:
    (block,) = page_of(tmp_path, "<!-- run after:\nx = 2\n-->\n```python\nprint(x)\n```\n")

    assert block.run({}, tmp_path) == "2\n"


def test_other_languages_are_not_run(tmp_path: Path) -> None:
    assert page_of(tmp_path, "```json\n{}\n```\n\n```\nplain\n```\n") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]

    assert missing == []
