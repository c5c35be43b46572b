"""The command line as a whole: help, errors, and what it costs to start."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.cli import main as entrance
from paddock.cli.main import build_parser
from paddock.version import __version__
from tests.operators import PADDOCK, PATIENCE_S, Operator

VERBS = (
    "serve",
    "run",
    "sandbox",
    "ps",
    "attach",
    "logs",
    "kill",
    "questions",
    "answer",
    "approve",
    "cp",
    "ls",
    "cat",
    "rules",
    "rules check",
    "rules explain",
    "rules add",
    "mcp",
    "mcp install",
    "network",
    "network groups",
    "proxy",
    "agent-demo",
    "audit",
    "audit show",
    "audit verify",
    "audit export",
    "config",
    "config check",
    "doctor",
    "completion",
    "version",
)

EXPENSIVE = (
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


def test_bare_paddock_shows_its_verbs(operator: Operator) -> None:
    done = operator.paddock()
    assert done.returncode == 2
    assert all(f"\n    {verb}" in done.stdout.decode() for verb in VERBS if " " not in verb)
    assert done.stderr == b""


def test_help_is_a_command_too(operator: Operator) -> None:
    assert (
        operator.paddock("help", "config", "check").stdout == operator.paddock("config", "check", "-h").stdout
    )
    shown = operator.paddock("help")
    assert (shown.returncode, shown.stdout) == (0, operator.paddock("--help").stdout)


def test_each_verb_is_shown_beside_what_it_does() -> None:
    shown = build_parser().format_help().partition("commands:")[2].partition("examples:")[0]
    names = [line.split()[0] for line in shown.splitlines() if line.startswith("    ") and line[4] != " "]
    assert names == [verb for verb in VERBS if " " not in verb]
    assert all(
        len(line.split()) > 1 for line in shown.splitlines() if line.startswith("    ") and line[4] != " "
    )


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (("rnu", "--", "true"), "there is no command 'rnu'; did you mean 'run'?"),
        (("rules", "chekc"), "there is no command 'chekc'; did you mean 'check'?"),
        (("xyzzy",), "there is no command 'xyzzy'; choose from serve, run, "),
        (("--hlep",), "paddock: there is no option '--hlep'; did you mean '--help'?"),
        (("help", "rnu"), "there is no command 'rnu'; did you mean 'run'?"),
        (("run", "--ulr", "ws://h:1"), "paddock run: there is no option '--ulr'; did you mean '--url'?"),
        (("mcp", "install", "--client=codex", "--yse"), "there is no option '--yse'; did you mean '--yes'?"),
        (("serve", "--log-level", "warn"), "there is no choice 'warn'; did you mean 'warning'?"),
    ],
)
def test_a_near_miss_is_answered_with_what_may_have_been_meant(
    operator: Operator, written: tuple[str, ...], told: str
) -> None:
    done = operator.paddock(*written)
    assert done.returncode == 2
    assert told in done.stderr.decode()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1:strict", "utf-16", "cp037"])
def test_an_odd_encoding_is_no_reason_for_a_traceback(encoding: str) -> None:
    for arguments in (("--help",), ("kill", "--help"), ("ls", "/名前-\udcff…"), ("rnü…",)):
        done = subprocess.run(
            [*PADDOCK, *arguments],
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            env=os.environ | {"PYTHONIOENCODING": encoding},
        )
        said = done.stdout + done.stderr
        assert said
        assert b"Traceback" not in said
        assert "Traceback".encode(encoding.partition(":")[0]) not in said


def test_every_message_begins_with_the_command_that_says_it(operator: Operator) -> None:
    for arguments, begin in (
        (("logs", "nothing"), "paddock logs: "),
        (("serve", "--listen", "nowhere"), "paddock serve: "),
        (("run", "--url", "ws://127.0.0.1:1", "--", "true"), "paddock run: "),
        (("cat", "/nonexistent"), "paddock cat: "),
    ):
        assert operator.paddock(*arguments).stderr.decode().startswith(begin)
    usage, message = operator.paddock("attach").stderr.decode().rsplit("\n", 2)[:2]
    assert usage.startswith("usage: paddock attach")
    assert message.startswith("paddock attach: ")


def test_the_version_is_told_in_words_and_as_json(operator: Operator) -> None:
    assert operator.output("version") == operator.output("--version") == f"paddock {__version__}\n"
    assert json.loads(operator.output("version", "--json")) == {
        "paddock": __version__,
        "python": platform.python_version(),
    }


@pytest.mark.parametrize("arguments", [("nonsense",), ("ps", "--nonsense"), ("ps", "-q", "--json")])
def test_a_wrong_command_line_has_status_2_and_says_why(
    operator: Operator, arguments: tuple[str, ...]
) -> None:
    done = operator.paddock(*arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: paddock")
    assert done.stderr.splitlines()[-1].startswith(b"paddock")


def redirected(operator: Operator, redirection: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run paddock in a shell with its streams redirected, and its output buffered as for most people."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *PADDOCK, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        env=env | operator.env,
    )


def broken_pipe(operator: Operator, *arguments: str) -> subprocess.CompletedProcess[bytes]:
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
            env=env | operator.env,
        )
    finally:
        os.close(write_end)


FULL = "No space left on device"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (("version", "--json"), 1, f"paddock version: can't write to standard output: {FULL}"),
        (("--help",), 1, f"paddock: can't write to standard output: {FULL}"),
        (("run", "--", "echo", "x"), 125, f"paddock run: can't write the output: {FULL}"),
        (("completion", "bash"), 1, f"paddock completion: can't write: {FULL}"),
        (("network", "groups"), 1, f"paddock network groups: can't write to standard output: {FULL}"),
        (("serve",), 1, rf"paddock serve: can't write ws://[0-9.:]+ to standard output: {FULL}"),
    ],
)
def test_a_full_disk_is_one_sentence(
    operator: Operator, arguments: tuple[str, ...], status: int, sentence: str
) -> None:
    done = redirected(operator, ">/dev/full", *arguments)
    assert done.returncode == status
    assert re.fullmatch(f"{sentence}\n", done.stderr.decode())


def test_a_server_whose_url_nobody_reads_says_so_and_ends(operator: Operator) -> None:
    done = broken_pipe(operator, "serve")
    assert done.returncode == 1
    assert re.fullmatch(
        r"paddock serve: can't write ws://[0-9.:]+ to standard output: Broken pipe\n", done.stderr.decode()
    )


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("doctor",)])
def test_a_reader_that_has_gone_ends_a_command_without_a_word(
    operator: Operator, arguments: tuple[str, ...]
) -> None:
    done = broken_pipe(operator, *arguments)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", [("ps",), ("doctor",), ("version",), ("--help",)])
def test_commands_do_without_a_closed_standard_output(operator: Operator, arguments: tuple[str, ...]) -> None:
    done = redirected(operator, ">&-", *arguments)
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stderr


def test_output_of_a_command_does_not_go_astray_when_standard_output_is_closed(operator: Operator) -> None:
    done = redirected(operator, ">&-", "run", "--", "echo", "x")
    assert done.returncode == 125
    assert done.stderr == b"paddock run: can't write the output: Bad file descriptor\n"


@pytest.mark.parametrize("arguments", [("ls", "here"), ("rules", "explain", "ls")])
def test_a_directory_that_is_gone_is_named_as_the_cause(
    operator: Operator, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'rmdir {place}; exec "$@"', "sh", *PADDOCK, *arguments],
        cwd=place,
        env=os.environ | operator.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith(": the current directory is gone; go to another\n")


def test_errors_do_not_go_to_standard_output_when_standard_error_is_closed(operator: Operator) -> None:
    done = redirected(operator, "2>&-", "run", "--", "/no/such")
    assert (done.returncode, done.stdout) == (127, b"")


@pytest.mark.parametrize("verb", entrance.VERBS)
def test_a_verb_is_declared_alone_as_among_all(verb: str) -> None:
    def helped(parser: argparse.ArgumentParser) -> str:
        (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
        return str(commands.choices[verb].format_help())

    assert helped(build_parser([verb])) == helped(build_parser())
