"""Run the frameworks' own suites against the adapters, and write what they said into the page about them.

`make ecosystem` runs this with the Python of .ecosystem: each suite on a private server, on a remote one and
over TLS with a token; by root, as root and as an ordinary user. It fails if a test fails for no known reason,
if one passes that is known to fail, and if the ways differ. Only root, who runs all ways, writes the page.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from tests.ecosystem.way import VARIABLE, Way
from tests.tls import AUTHORITY

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "explanation" / "ecosystems.md"
BEGIN, END = "<!-- made by make ecosystem -->\n", "<!-- the end of what is made -->\n"
TIMEOUT_S = 1200.0
WORKERS = 4
"""Suites at a time: they wait most of the time, for time-outs and for processes."""

GLOB = "wants relative names; the contract of deepagents wants absolute ones, for its deny rules"


@dataclass(frozen=True, slots=True)
class Suite:
    """A file of tests with a suite of a framework, and tests of our own beside it."""

    package: str
    name: str
    file: str
    asyncio_mode: str = "auto"
    known: dict[str, str] = field(default_factory=dict)
    """Tests that do not pass, and why."""


SUITES = (
    Suite("anthropic", "none; tool runner, worker and hooks with scripted endpoints", "test_anthropic.py"),
    Suite("mini-swe-agent", "none; an agent with its own test model", "test_mini_swe_agent.py"),
    Suite("smolagents", "`CommonDockerExecutorIntegration` of its source", "test_smolagents.py"),
    Suite(
        "swe-rex",
        "`test_execution`, `test_server` and `test_remote_deployment` of its source",
        "test_swerex.py",
        known={
            "test_run_in_shell_multiple_interactive_and_normal_commands": "SWE-ReX itself expects it to "
            "fail: it wants the line end of an interactive program, which the protocol leaves out",
        },
    ),
    Suite("openai-agents", "none; a `SandboxAgent` with `ScriptedModel`", "test_openai_agents.py"),
    Suite(
        "deepagents",
        "`langchain_tests` `SandboxIntegrationTests`",
        "test_deepagents.py",
        known={
            "test_glob": GLOB,
            "test_glob_basic_pattern": GLOB,
            "test_glob_hidden_files_explicitly": GLOB,
            "test_glob_with_character_class": GLOB,
            "test_glob_with_question_mark": GLOB,
            "test_glob_with_directories": "wants directories; the contract of deepagents returns files only",
            "test_write_existing_file_fails": "wants a refusal; the contract of deepagents overwrites",
        },
    ),
    Suite(
        "pydantic-ai-slim",
        "`WorkspaceBackendSuite`",
        "test_pydantic_ai.py",
        "strict",
        {
            "test_cancellation_stops_foreground_work": "asks another command for a process by number, but "
            "every sandbox numbers its own; tests/sandbox/test_workspace.py shows that they end",
        },
    ),
    Suite(
        "inspect-ai",
        "`self_check`",
        "test_inspect_ai.py",
        known={
            "test_exec_as_user": "makes another user on the host; commands run as the user of the server",
        },
    ),
)


ROOT, ORDINARY = "root", "an ordinary user"
USERS = (ROOT, ORDINARY) if os.geteuid() == 0 else (ORDINARY,)


@dataclass(slots=True)
class Count:
    """What a suite said in one run."""

    passed: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    own: int = 0


def main() -> int:
    """Run all suites, or those that are named, and write the page; return 1 if a surprise is among it."""
    wanted = sys.argv[1:]
    chosen = [suite for suite in SUITES if not wanted or suite.package in wanted]
    rows: dict[str, str] = {}
    reasons: dict[str, list[str]] = {}
    surprises: list[str] = []
    with ThreadPoolExecutor(WORKERS) as workers:
        # The last ones take longest.
        running = {suite.package: workers.submit(_runs, suite) for suite in reversed(chosen)}
    for suite in chosen:
        runs = running[suite.package].result()
        rows[suite.package] = _row(suite, [runs[user, Way.PRIVATE] for user in USERS])
        reasons[suite.package] = [
            *dict.fromkeys(why for each in runs.values() for why in _reasons(suite, each))
        ]
        for (user, way), count in runs.items():
            found = [*_surprises(suite, count)]
            if count != runs[user, Way.PRIVATE]:
                found.append("other numbers than on a private server")
            surprises += [f"{suite.package}, as {user}, {way}: {surprise}" for surprise in found]
    if len(USERS) == 2:
        _write(rows, reasons)
    print(
        "\n".join(
            [*HEADER, *rows.values(), *(each for some in reasons.values() for each in some), *surprises]
        )
    )
    return 1 if surprises else 0


def _runs(suite: Suite) -> dict[tuple[str, Way], Count]:
    """Run a suite in all ways, one after the other: some use a directory of a name of their own."""
    return {(user, way): _run(suite, user, way) for user in USERS for way in Way}


HEADER = (
    "| framework | its suite | passed | failed | skipped | our tests beside it |",
    "|---|---|---|---|---|---|",
)


def _row(suite: Suite, counts: list[Count]) -> str:
    """Return a line of the table; where root and an ordinary user differ, both numbers."""
    cells = [
        " / ".join(dict.fromkeys(str(number) for number in numbers))
        for numbers in (
            [count.passed for count in counts],
            [len(count.failed) for count in counts],
            [len(count.skipped) for count in counts],
            [count.own for count in counts],
        )
    ]
    return f"| {suite.package} {version(suite.package)} | {suite.name} | {' | '.join(cells)} |"


def _reasons(suite: Suite, count: Count) -> Iterator[str]:
    for test in count.failed:
        yield f"- {suite.package}, `{test}`: {suite.known.get(test, 'NOT KNOWN')}"
    for test, why in count.skipped:
        yield f"- {suite.package}, `{test}`, skipped: {why}"


def _surprises(suite: Suite, count: Count) -> Iterator[str]:
    for test in count.failed:
        if test not in suite.known:
            yield f"{test} failed"
    for test in suite.known:
        if test not in count.failed:
            yield f"{test} passes now"
    if count.passed + count.own == 0:
        yield "nothing was run"


def _run(suite: Suite, user: str, way: Way) -> Count:
    with tempfile.TemporaryDirectory(prefix="paddock-ecosystem-", dir="/tmp") as directory:
        report = Path(directory, "report.xml")
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-c", str(HERE / "pytest.ini"), "--rootdir", str(HERE)),
            *("--confcutdir", str(HERE), "-o", f"asyncio_mode={suite.asyncio_mode}"),
            *("--junitxml", str(report), str(HERE / suite.file)),
        ]
        if user == ORDINARY and os.geteuid() == 0:
            apart = ("unshare", "--mount", "--", sys.executable, "-m", "tests.ecosystem.as_user", directory)
            command = [*apart, *command]
        root = HERE.parent.parent
        environment = {
            **os.environ,
            VARIABLE: way,
            "PWD": str(root),
            "PYTHONDONTWRITEBYTECODE": "1",
            # Clients that take no certificates of their own, such as SWE-ReX's, trust the host's.
            "SSL_CERT_FILE": str(AUTHORITY),
            # The suites run `python`, which need not be anywhere that an ordinary user reaches.
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            check=False,
            timeout=TIMEOUT_S,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(f"== {suite.package}, as {user}, {way}\n{done.stdout}", end="", flush=True)
        if not report.exists():
            return Count()
        return _count(ElementTree.parse(report), suite)


def _count(report: ElementTree.ElementTree[ElementTree.Element], suite: Suite) -> Count:
    count = Count()
    own = _own_tests(suite)
    for case in report.iter("testcase"):
        name = (case.get("name") or "").partition("[")[0]
        skip = case.find("skipped")
        is_expected_to_fail = skip is not None and skip.get("type") == "pytest.xfail"
        if is_expected_to_fail or case.find("failure") is not None or case.find("error") is not None:
            count.failed.append(name)
        elif skip is not None:
            count.skipped.append((name, (skip.get("message") or "").strip()))
        elif name in own:
            count.own += 1
        else:
            count.passed += 1
    return count


def _own_tests(suite: Suite) -> set[str]:
    """Return the names of the tests that are written in the file itself."""
    lines = (HERE / suite.file).read_text(encoding="utf-8").splitlines()
    return {
        line.split("def ")[1].split("(")[0]
        for line in lines
        if line.startswith(("def test_", "async def test_"))
    }


def _write(rows: dict[str, str], reasons: dict[str, list[str]]) -> None:
    """Write what the suites said into the page; suites that were not run keep what stands there."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    lines = old.splitlines()
    kept = {
        suite.package: [each for each in lines if each.startswith(f"| {suite.package} ")] for suite in SUITES
    }
    table = [rows.get(package, *row[:1]) for package, row in kept.items() if package in rows or row]
    why = [
        line
        for suite in SUITES
        for line in reasons.get(
            suite.package, [each for each in lines if each.startswith(f"- {suite.package}, ")]
        )
    ]
    made = "\n".join([*HEADER, *table, "", "What does not pass, and why:", "", *why, ""])
    PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
