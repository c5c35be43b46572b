"""Completion scripts: what they know, and that the shells take them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.cli.completion_script import completion_script
from paddock.cli.main import build_parser
from tests.operators import PATIENCE_S, Desk

COMPLETE = """\
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
_paddock
printf '%s\\n' "${COMPREPLY[@]}"
"""


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def bash_script(tmp_path: Path) -> Path:
    script = tmp_path / "paddock.bash"
    script.write_text(completion_script(build_parser(), "bash"))
    # The script calls the program by its name.
    program = tmp_path / "bin" / "paddock"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m paddock "$@"\n')
    program.chmod(0o755)
    return script


def complete(script: Path, *words: str, env: dict[str, str] | None = None) -> list[str]:
    """What bash offers for the last of the words."""
    path = f"{script.parent / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", str(script), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
        env={**os.environ, **(env or {}), "PATH": path},
    )
    assert done.stderr == ""
    return done.stdout.split()


@needs("bash")
def test_bash_completes_commands_options_and_their_values(bash_script: Path, tmp_path: Path) -> None:
    assert complete(bash_script, "paddock", "at") == ["attach"]
    assert complete(bash_script, "paddock", "rules", "ex") == ["explain"]
    assert complete(bash_script, "paddock", "rules", "check", "--pr") == ["--pretty"]
    assert complete(bash_script, "paddock", "rules", "add", "--pr") == []
    assert complete(bash_script, "paddock", "rules", "explain", "") == []
    assert complete(bash_script, "paddock", "audit", "export", "--format", "") == ["jsonl", "csv"]
    assert set(complete(bash_script, "paddock", "")) >= {"serve", "run", "ps", "--version"}
    assert complete(bash_script, "paddock", "attach", "--re") == ["--read-only"]
    assert complete(bash_script, "paddock", "completion", "") == ["bash", "zsh", "fish"]
    assert complete(bash_script, "paddock", "kill", "--signal", "US") == ["USR1", "USR2"]
    assert complete(bash_script, "paddock", "run", "--cwd", f"{tmp_path}/b") == [f"{tmp_path}/bin"]
    assert complete(bash_script, "paddock", "run", "--", "kill", "--si") == []
    assert complete(bash_script, "paddock", "nonsense", "") == []


@needs("bash")
def test_bash_completes_the_ids_of_processes(bash_script: Path, desk: Desk) -> None:
    with desk.serving():
        process_id = desk.detach("--", "sleep", "1000")
        assert complete(bash_script, "paddock", "attach", "", env=desk.env) == [process_id]
        assert complete(bash_script, "paddock", "kill", process_id[:3], env=desk.env) == [process_id]
        desk.output("kill", process_id)
        assert complete(bash_script, "paddock", "attach", "", env=desk.env) == []
        assert complete(bash_script, "paddock", "logs", "", env=desk.env) == [process_id]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_know_every_command_and_long_option(desk: Desk, shell: str) -> None:
    script = desk.output("completion", shell)
    for word in ("serve", "attach", "doctor", "detach-keys", "read-only", "concurrent-requests"):
        assert word in script


def test_fish_offers_the_options_of_a_command_below_another_to_it_alone() -> None:
    lines = completion_script(build_parser(), "fish").splitlines()
    (pretty,) = (line for line in lines if "-l pretty" in line)
    assert "'__fish_seen_subcommand_from rules; and __fish_seen_subcommand_from check'" in pretty
    (names,) = (line for line in lines if "-a 'check explain add'" in line)
    assert "and not __fish_seen_subcommand_from check explain add'" in names


@pytest.mark.parametrize(
    ("shell", "flags"), [("bash", ("-n",)), ("zsh", ("-n",)), ("fish", ("--no-execute",))]
)
def test_the_shells_can_read_their_scripts(shell: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(completion_script(build_parser(), shell))
    done = subprocess.run(
        [shell, *flags, str(script)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(desk: Desk) -> None:
    done = desk.paddock("completion", "tcsh")
    assert done.returncode == 2
    assert b"invalid choice: 'tcsh'" in done.stderr
