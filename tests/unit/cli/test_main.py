"""The command line as a whole: help, errors, and what it costs to start."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys

import pytest

from paddock.cli import main as entrance
from paddock.cli.main import build_parser
from paddock.version import __version__
from tests.operators import PADDOCK, PATIENCE_S, Desk

VERBS = (
    "serve",
    "run",
    "sandbox",
    "ps",
    "attach",
    "logs",
    "kill",
    "cp",
    "ls",
    "cat",
    "rules",
    "rules check",
    "rules explain",
    "rules add",
    "audit",
    "audit show",
    "audit verify",
    "audit export",
    "doctor",
    "completion",
    "version",
)

EXPENSIVE = (
    "aiofastnet",
    "asyncio",
    "dataclasses",
    "inspect",
    "msgspec",
    "socket",
    "ssl",
    "subprocess",
    "uvloop",
)
"""Imports that take longer than the rest of `paddock --version` together."""


def verbs(parser: argparse.ArgumentParser | None = None) -> dict[str, argparse.ArgumentParser]:
    """Every verb, those below another by both words."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in (parser or build_parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, verb in action.choices.items():
                found[name] = verb
                found |= {f"{name} {below}": each for below, each in verbs(verb).items()}
    return found


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


def redirected(desk: Desk, redirection: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run paddock in a shell with its streams redirected, and its output buffered as for most people."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *PADDOCK, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        env=env | desk.env,
    )


def broken_pipe(desk: Desk, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run paddock with a pipe as its standard output that nobody reads any more."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    try:
        return subprocess.run(
            [*PADDOCK, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
            env=env | desk.env,
        )
    finally:
        os.close(write_end)


FULL = "No space left on device"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("version", "--json"), 1, f"paddock: can't write to standard output: {FULL}"),
        (("--help",), 1, f"paddock: can't write to standard output: {FULL}"),
        (("run", "--", "echo", "x"), 125, f"paddock run: can't write the output: {FULL}"),
        (("serve",), 1, rf"paddock: can't write ws://[0-9.:]+ to standard output: {FULL}"),
    ],
)
def test_a_full_disk_is_one_sentence(
    desk: Desk, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    done = redirected(desk, ">/dev/full", *arguments)
    assert done.returncode == status
    assert re.fullmatch(f"{sentence}\n", done.stderr.decode())


def test_a_server_whose_url_nobody_reads_says_so_and_ends(desk: Desk) -> None:
    done = broken_pipe(desk, "serve")
    assert done.returncode == 1
    assert re.fullmatch(
        r"paddock: can't write ws://[0-9.:]+ to standard output: Broken pipe\n", done.stderr.decode()
    )


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("doctor",)])
def test_a_reader_that_has_gone_ends_a_command_without_a_word(desk: Desk, arguments: tuple[str, ...]) -> None:
    done = broken_pipe(desk, *arguments)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", [("ps",), ("doctor",), ("version",), ("--help",)])
def test_commands_do_without_a_closed_standard_output(desk: Desk, arguments: tuple[str, ...]) -> None:
    done = redirected(desk, ">&-", *arguments)
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr


def test_output_of_a_command_does_not_go_astray_when_standard_output_is_closed(desk: Desk) -> None:
    done = redirected(desk, ">&-", "run", "--", "echo", "x")
    assert done.returncode == 125
    assert done.stderr == b"paddock run: can't write the output: Bad file descriptor\n"


def test_errors_do_not_go_to_standard_output_when_standard_error_is_closed(desk: Desk) -> None:
    done = redirected(desk, "2>&-", "run", "--", "/no/such")
    assert (done.returncode, done.stdout) == (127, b"")


@pytest.mark.parametrize("verb", entrance.VERBS)
def test_a_verb_is_declared_alone_as_among_all(verb: str) -> None:
    def helped(parser: argparse.ArgumentParser) -> str:
        (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
        return str(commands.choices[verb].format_help())

    assert helped(build_parser([verb])) == helped(build_parser())
