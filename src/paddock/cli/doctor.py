"""`paddock doctor`: check whether this host has what paddock needs.

Declares the verb and renders the findings; `diagnosis` and `sandbox_diagnosis` make them.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from paddock.cli import exit_status
from paddock.cli.options import Verbs, add_verb

if TYPE_CHECKING:
    from paddock.cli.finding import Finding

DESCRIPTION = """\
Check this host: Python, the kernel's features, the programs and limits that paddock uses,
the servers that run, and how well paddock can confine commands. For every problem, say
what to do about it.
"""

EXAMPLES = """\
examples:
  paddock doctor
  paddock doctor --json | jq '.checks[] | select(.level != "ok")'

levels:
  ok    as it should be
  warn  works, but less well, or without sandboxes
  fail  paddock does not work here

exit status:
  0, or 1 if anything fails.
"""


def add_parser(verbs: Verbs) -> None:
    """Declare the verb."""
    parser = add_verb(
        verbs, "doctor", run, help="check this host", description=DESCRIPTION, examples=EXAMPLES
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the findings."""
    from paddock.cli import diagnosis, sandbox_diagnosis
    from paddock.cli.finding import Level

    findings = [*diagnosis.examine(), *sandbox_diagnosis.examine()]
    has_failed = any(finding.level is Level.FAIL for finding in findings)
    if arguments.json:
        print(_json(findings, is_healthy=not has_failed))
    else:
        _print(findings)
    return exit_status.FAILURE if has_failed else 0


def _print(findings: list[Finding]) -> None:
    from paddock.cli.finding import Level
    from paddock.cli.rendering import Colour, Palette
    from paddock.printable import printable

    colours = {Level.OK: Colour.GREEN, Level.WARN: Colour.YELLOW, Level.FAIL: Colour.RED}
    palette = Palette.of(sys.stdout)
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        level = palette.paint(f"{finding.level:4}", colours[finding.level])
        print(f"{level}  {finding.name:{width}}  {printable(finding.detail)}")
        if finding.remedy is not None:
            print(f"{'':4}  {'':{width}}  → {printable(finding.remedy)}")


def _json(findings: list[Finding], *, is_healthy: bool) -> str:
    import json

    from msgspec.structs import asdict

    return json.dumps({"ok": is_healthy, "checks": [asdict(finding) for finding in findings]}, indent=2)
