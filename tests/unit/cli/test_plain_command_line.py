"""A plain command line means what the parser makes of it, and costs no parser."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from paddock.cli.main import build_parser
from paddock.cli.plain_command_line import PLAIN_VERBS, plain_arguments
from tests.operators import PATIENCE_S


def meaning(arguments: argparse.Namespace | None) -> dict[str, object] | None:
    if arguments is None:
        return None
    values = dict(vars(arguments))
    del values["usage_error"]
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def parsed(words: list[str]) -> argparse.Namespace:
    return build_parser(words[:1]).parse_args(words)


@pytest.mark.parametrize("verb", PLAIN_VERBS)
@pytest.mark.parametrize(
    "rest",
    [
        ["--", "true"],
        ["--", "make", "-j2", "--", "--profile", "x", "@file", ""],
        ["--", "--", "true"],
        ["--", "--help"],
    ],
)
def test_a_plain_command_line_means_what_the_parser_makes_of_it(verb: str, rest: list[str]) -> None:
    words = [verb, *rest]
    plain = plain_arguments(words)
    assert plain is not None
    assert meaning(plain) == meaning(parsed(words))


@pytest.mark.parametrize(
    "options",
    [
        ["--profile", ":read-only"],
        ["--profile", "strict.toml#ci"],
        ["--profile", ""],
        ["--profile", ":read-only", "--profile", "{}"],
    ],
)
def test_a_profile_is_part_of_a_plain_command_line(options: list[str]) -> None:
    words = ["sandbox", *options, "--", "ls", "-l"]
    plain = plain_arguments(words)
    assert plain is not None
    assert meaning(plain) == meaning(parsed(words))


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["sandbox"],
        ["sandbox", "--"],
        ["sandbox", "true"],
        ["sandbox", "--help"],
        ["sandbox", "--explain", "--", "true"],
        ["sandbox", "--profile", "--", "true"],
        ["sandbox", "--profile", "-x", "--", "true"],
        ["sandbox", "--profile=:read-only", "--", "true"],
        ["sandbox", "--prof", ":read-only", "--", "true"],
        ["run", "--profile", ":read-only", "--", "true"],
        ["run", "-d", "--", "true"],
        ["ps", "--", "true"],
    ],
)
def test_the_parser_gets_every_other_command_line(words: list[str]) -> None:
    assert plain_arguments(words) is None


def test_a_usage_error_of_a_plain_command_line_is_the_parsers(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sandbox", "--", "true"]
    told = []
    for arguments in (plain_arguments(words), parsed(words)):
        assert arguments is not None
        with pytest.raises(SystemExit) as ended:
            arguments.usage_error("this makes no sense")
        told.append((ended.value.code, capsys.readouterr().err))
    assert told[0] == told[1]
    assert told[0][0] == 2


@pytest.mark.parametrize("verb", PLAIN_VERBS)
def test_a_plain_command_line_loads_no_parser(verb: str) -> None:
    script = (
        "import sys; from paddock.cli.main import plain_arguments; "
        f"plain_arguments([{verb!r}, '--', 'true']); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert not {"argparse", "logging", "pathlib", "subprocess", "asyncio"} & set(done.stdout.split())
