"""The outcomes of the cases as a table, for people and for `docs/explanation/denials.md`.

    python -m tests.sandbox.denial_table

runs all cases as an ordinary user, if it may, and writes the table into that page.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.sandbox.denial_case import GROUPS, Case
from tests.sandbox.denial_ground import Outcome, Result, UserGround, is_found, mistakes
from tests.sandbox.identity import ORDINARY

PAGE = Path(__file__).parents[2] / "docs/explanation/denials.md"
BEGIN = "<!-- table -->\n"
END = "<!-- /table -->\n"


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The table, then what it comes down to."""
    yield "| command | it is denied | told | told if traced | keywords |"
    yield "|---|---|---|---|---|"
    yield from map(row, outcomes)
    yield ""
    yield from summary(outcomes)


def row(outcome: Outcome) -> str:
    """One case."""
    case = outcome.case
    denied = "nothing" if case.kind is None else f"{case.kind} {case.target or ''}".strip()
    told = [_verdict(case, result) for result in (outcome.plain, outcome.traced)]
    keywords = "denied" if outcome.plain.is_suspected else "-"
    script = case.script.replace("|", "\\|")
    return f"| `{script}`{_profile(case)} | {denied} | {told[0]} | {told[1]} | {keywords} |"


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """How much of what is true was told, and how much of what was told is true."""
    yield "| | precision | recall |"
    yield "|---|---|---|"
    denied = [outcome for outcome in outcomes if outcome.case.kind is not None]
    for name, results in (
        ("certain denials", [(outcome.case, outcome.plain) for outcome in outcomes]),
        ("certain denials, traced", [(outcome.case, outcome.traced) for outcome in outcomes]),
    ):
        told = sum(told.certain for _, result in results for told in result.denials)
        wrong = sum(len(mistakes(case, result)) for case, result in results)
        found = sum(is_found(case, result) for case, result in results if case.kind is not None)
        yield f"| {name} | {_ratio(told - wrong, told)} | {_ratio(found, len(denied))} |"
    suspected = [outcome for outcome in outcomes if outcome.plain.is_suspected]
    right = sum(outcome.case.kind is not None for outcome in suspected)
    yield f"| keywords | {_ratio(right, len(suspected))} | {_ratio(right, len(denied))} |"


def recall(outcomes: Iterable[tuple[Case, Result]]) -> float:
    """The part of what is denied that was told as certain."""
    found = [is_found(case, result) for case, result in outcomes if case.kind is not None]
    return sum(found) / len(found)


def _verdict(case: Case, result: Result) -> str:
    if mistakes(case, result):
        return "WRONG"
    if is_found(case, result):
        return "certain"
    return "guess" if result.denials else "-"


def _profile(case: Case) -> str:
    return "" if case.profile == "usual" else f" ({case.profile})"


def _ratio(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def main() -> None:
    """Write the page anew."""
    user = ORDINARY if os.geteuid() == 0 else os.geteuid()
    directory = Path(tempfile.mkdtemp(prefix="paddock-denials-", dir="/var/tmp")).resolve()
    directory.chmod(0o1777)
    try:
        with UserGround(user, directory) as ground:
            outcomes = [outcome for group in GROUPS for outcome in ground.outcomes(group)]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    table = "".join(f"{line}\n" for line in lines(outcomes))
    text = PAGE.read_text()
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: BEGIN + table + END, text, flags=re.DOTALL))
    print(table, end="")


if __name__ == "__main__":
    main()
