"""`python -m scripts.reference`: write the references in docs/reference/ from the code, or check them.

With `--check` nothing is written; the exit status is 1 if a page differs from what the
code says. The pages depend on the code alone: not on the Python version, the terminal
or the host.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.reference import command_line, events, man_page, metrics, protocol, python_api, settings

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "protocol.md": protocol.page,
    "cli.md": command_line.page,
    "config.md": settings.page,
    "metrics.md": metrics.page,
    "events.md": events.page,
    "python.md": python_api.page,
    **man_page.pages(),
}


def stale_pages() -> list[str]:
    """The names of the pages that are missing, not what the code says, or about a command that is gone."""
    changed = [
        name
        for name, make in PAGES.items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != make()
    ]
    return changed + superfluous_pages()


def superfluous_pages() -> list[str]:
    """The names of manual pages of commands that there are not any more."""
    found = (str(page.relative_to(FOLDER)) for page in (FOLDER / man_page.FOLDER).glob("*"))
    return sorted(name for name in found if name not in PAGES)


def main() -> int:
    """Write or check; the exit status is returned."""
    parser = argparse.ArgumentParser(prog="python -m scripts.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail on a difference")
    if parser.parse_args().check:
        stale = stale_pages()
        for name in stale:
            print(f"docs/reference/{name} is not what the code says; run `make reference`", file=sys.stderr)
        return 1 if stale else 0
    (FOLDER / man_page.FOLDER).mkdir(parents=True, exist_ok=True)
    for name in superfluous_pages():
        (FOLDER / name).unlink()
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
