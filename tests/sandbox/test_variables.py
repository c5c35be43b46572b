"""What commands inherit of the user's variables: the same from `paddock run` and `paddock sandbox`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.operators import PADDOCK, PATIENCE_S

ENVIRONMENT = {
    "MY_API_KEY": "k",
    "AUTHTOKEN": "t",
    "KEYBOARD": "de",
    "MONKEY": "m",
    "TOKENIZERS_PARALLELISM": "1",
}
VERBS = pytest.mark.parametrize(
    "verb", [("run",), ("run", "--profile", ":workspace"), ("sandbox",)], ids=" ".join
)


def inherited(verb: tuple[str, ...], *options: str, cwd: Path) -> dict[str, str]:
    done = subprocess.run(
        [*PADDOCK, *verb, *options, "--", "env"],
        cwd=cwd,
        env=os.environ | ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    found = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    return {name: found[name] for name in (*ENVIRONMENT, "NEW") if name in found}


@VERBS
def test_command_inherits_no_secrets_and_everything_else(verb: tuple[str, ...], new_directory: Path) -> None:
    kept = {"KEYBOARD": "de", "MONKEY": "m", "TOKENIZERS_PARALLELISM": "1"}
    assert inherited(verb, cwd=new_directory) == kept


@VERBS
def test_variable_is_passed_through_by_name_or_set(verb: tuple[str, ...], new_directory: Path) -> None:
    found = inherited(verb, "--env", "MY_API_KEY", "--env", "NEW=value", cwd=new_directory)
    assert (found["MY_API_KEY"], found["NEW"]) == ("k", "value")
    assert "AUTHTOKEN" not in found


@pytest.mark.parametrize("verb", ["run", "sandbox"])
def test_help_says_what_is_left_out(verb: str) -> None:
    done = subprocess.run(
        [*PADDOCK, verb, "--help"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    said = " ".join(done.stdout.split())
    assert "look like secrets (KEY, SECRET, TOKEN or PASSWORD as a word) are left out" in said


@VERBS
def test_variable_that_is_not_set_is_told(verb: tuple[str, ...], new_directory: Path) -> None:
    done = subprocess.run(
        [*PADDOCK, *verb, "--env", "NOT_SET_ANYWHERE", "--", "true"],
        cwd=new_directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert "NOT_SET_ANYWHERE is not set here; give NOT_SET_ANYWHERE=VALUE" in done.stderr
