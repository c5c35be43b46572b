"""The command line as a whole: help, errors, and what it costs to start."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys

import pytest

from paddock.cli.main import build_parser
from paddock.version import __version__
from tests.operators import PADDOCK, PATIENCE_S, Desk

VERBS = ("serve", "run", "sandbox", "ps", "attach", "logs", "kill", "doctor", "completion", "version")

EXPENSIVE = (
    "asyncio",
    "dataclasses",
    "inspect",
    "msgspec",
    "picows",
    "socket",
    "ssl",
    "subprocess",
    "uvloop",
)
"""Imports that take longer than the rest of `paddock --version` together."""


def verbs() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser()
    (action,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def test_every_verb_is_there() -> None:
    assert tuple(verbs()) == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples_that_fit_a_terminal(verb: str) -> None:
    text = verbs()[verb].format_help()
    assert f"  paddock {verb}" in text
    assert "examples:" in text
    assert all(len(line) <= 110 for line in text.splitlines())


@pytest.mark.parametrize("verb", VERBS)
def test_every_argument_is_explained(verb: str) -> None:
    for action in verbs()[verb]._actions:
        assert action.help, action.dest


def test_declaring_the_verbs_loads_nothing_expensive() -> None:
    script = "import sys; from paddock.cli.main import build_parser; build_parser(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    loaded = set(done.stdout.split())
    assert not loaded & set(EXPENSIVE)


def test_the_version_is_told_in_words_and_as_json(desk: Desk) -> None:
    assert desk.output("version") == desk.output("--version") == f"paddock {__version__}\n"
    assert json.loads(desk.output("version", "--json")) == {
        "paddock": __version__,
        "python": platform.python_version(),
    }


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("ps", "--nonsense"), ("ps", "-q", "--json")])
def test_a_wrong_command_line_has_status_2_and_says_why(desk: Desk, arguments: tuple[str, ...]) -> None:
    done = desk.paddock(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: paddock")
    assert b"error: " in done.stderr


def test_a_full_disk_is_one_sentence(desk: Desk) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PADDOCK, "version", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
            env=os.environ | desk.env,
        )
    assert done.returncode == 1
    assert done.stderr == b"paddock: No space left on device\n"
