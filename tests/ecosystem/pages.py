"""The page of a framework, run as a reader would try it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.docs.examples import blocks_in

HOW_TO = Path(__file__).resolve().parent.parent.parent / "docs" / "how-to"


def run_page(name: str, directory: Path) -> None:
    """Run the blocks of a page in order; each must end by printing what the page says.

    What a block that is not shown enters into `closing` ends with the page.
    """
    with ExitStack() as closing:
        names: dict[str, Any] = {"__name__": "__main__", "closing": closing}
        for block in blocks_in(HOW_TO / f"{name}.md"):
            printed = block.run(names, directory)
            assert printed.endswith(block.output or "")
