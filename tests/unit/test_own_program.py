"""Every helper starts with an environment of ours, whatever is in that of the process that starts it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.fs.match_collector import MatchCollector
from paddock.fs.operation import Search
from paddock.fs.ripgrep import search_with
from paddock.fs.search_process import search_apart
from paddock.own_program import Program, find, own_environment, search_path
from paddock.process.spawner import Spawner
from paddock.rules.loader import load_policy
from paddock.sandbox.enforce.janitor import Janitor, locate
from paddock.sandbox.host.kernel import Kernel
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from paddock.sandbox.host.ripgrep import list_files


def _ripgrep() -> Program:
    programs = find("rg", search_path()).system
    if not programs:
        pytest.skip("ripgrep is not installed")
    return programs[0]


def probe(_: Path) -> None:
    trial = Kernel().run(["/usr/bin/env"])
    assert dict(line.split("=", 1) for line in trial.stdout.splitlines()) == own_environment()


def evaluate_rules(place: Path) -> None:
    file = place / "x.rules"
    file.write_text('prefix_rule(pattern = ["ls"], decision = "allow")\n')
    assert load_policy([file]).problems == ()


def search_in_a_process(place: Path) -> None:
    assert search_apart(_search(place)).matches


def search_with_ripgrep(place: Path) -> None:
    operation = _search(place)
    collector = MatchCollector(operation)
    search_with(_ripgrep(), operation, os.fsencode(place), collector)


def list_with_ripgrep(place: Path) -> None:
    listing = list_files(_ripgrep(), str(place), ["*.txt"], None)
    assert listing is not None
    assert listing.paths() == ["found.txt"]
    listing.close()


def hold_a_place(place: Path) -> None:
    janitor = Janitor(place)
    places = locate([Placeholder(str(place / "held"), PlaceholderKind.DIRECTORY)])
    janitor.hold(places)
    janitor.release(places, was_killed=False)
    janitor.close()


def start_the_spawner(_: Path) -> None:
    async def start() -> None:
        spawner = await Spawner.start(lambda: None)
        await spawner.aclose()

    asyncio.run(start())


def _search(place: Path) -> Search:
    return Search(
        path=os.fsencode(place), pattern="needle", max_matches=9, max_file_bytes=999, timeout_s=20.0
    )


@pytest.mark.parametrize(
    "work",
    [
        probe,
        evaluate_rules,
        search_in_a_process,
        search_with_ripgrep,
        list_with_ripgrep,
        hold_a_place,
        start_the_spawner,
    ],
)
def test_no_variable_of_this_process_reaches_a_helper(
    work: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "found.txt").write_text("needle\n")
    traces = tmp_path / "traces"
    traces.mkdir()
    monkeypatch.setenv("LD_DEBUG", "libs")
    monkeypatch.setenv("LD_DEBUG_OUTPUT", str(traces / "helper"))
    work(tmp_path / "place")
    assert list(traces.iterdir()) == []


WITHOUT_DESCRIPTORS = """
import os, resource
from paddock.own_program import find
usual = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0) + 1, usual[1]))
try:
    find("sh", "/usr/bin:/bin")
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_NOFILE, usual)
print(len(find("sh", "/usr/bin:/bin").system))
"""


def test_what_was_looked_for_without_descriptors_is_found_when_there_are_some() -> None:
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS], capture_output=True, text=True, check=True
    )
    assert told.stdout == "Too many open files\n1\n"
