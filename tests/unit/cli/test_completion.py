"""Completion scripts: what they know, and that the shells take them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import paddock
from paddock.cli.completion_script import completion_script
from paddock.cli.main import build_parser
from tests.operators import PATIENCE_S, Operator, terminal

COMPLETE = """\
source "$1"
shift
COMP_LINE=$*
COMP_POINT=${#COMP_LINE}
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
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m paddock "$@"\n')
    program.chmod(0o755)
    return script


def complete(
    script: Path, *words: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> list[str]:
    """What bash offers for the last of the words."""
    path = f"{script.parent / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", str(script), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
        env={**os.environ, **(env or {}), "PATH": path},
        cwd=cwd,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


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
def test_bash_completes_the_ids_of_processes(bash_script: Path, operator: Operator) -> None:
    with operator.serving():
        process_id = operator.detach("--", "sleep", "1000")
        assert complete(bash_script, "paddock", "attach", "", env=operator.env) == [process_id]
        assert complete(bash_script, "paddock", "kill", process_id[:3], env=operator.env) == [process_id]
        operator.output("kill", process_id)
        assert complete(bash_script, "paddock", "attach", "", env=operator.env) == []
        assert complete(bash_script, "paddock", "logs", "", env=operator.env) == [process_id]


@needs("bash")
def test_bash_runs_nothing_of_the_names_that_others_chose(
    bash_script: Path, operator: Operator, tmp_path: Path
) -> None:
    trap = "$(>ran)"
    (tmp_path / trap).mkdir()

    async def offered_ids(url: str) -> list[str]:
        async with paddock.connect(url) as box:
            for name in (trap, "a b;c"):
                await box.start(["sleep", "1000"], process_id=name)
            return complete(bash_script, "paddock", "attach", "", env=operator.env, cwd=tmp_path)

    with operator.serving() as server:
        assert set(asyncio.run(offered_ids(server.url))) == {r"\$\(\>ran\)", r"a\ b\;c"}
    assert complete(bash_script, "paddock", "run", "--cwd", "$", cwd=tmp_path) == [r"\$\(\>ran\)"]
    assert not (tmp_path / "ran").exists()


SETTINGS = {
    "bash": (".bashrc", "PS1='ready> '\nsource <(paddock completion bash)\n"),
    "zsh": (
        ".zshrc",
        "PROMPT='ready> '\nautoload -Uz compinit && compinit -u\nsource <(paddock completion zsh)\n",
    ),
    "fish": (
        ".config/fish/config.fish",
        """\
function fish_prompt; echo -n 'ready> '; end
function fish_greeting; end
paddock completion fish | source
""",
    ),
}
"""Where the documents tell users of each shell to put which line."""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_user_of_the_shell_completes_with_tab(shell: str, operator: Operator, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    name, text = SETTINGS[shell]
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    # It tells what it was called with, but for what completion asks.
    program = tmp_path / "bin" / "paddock"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ "$1" = completion ] && exec {sys.executable} -P -m paddock "$@"\n'
        "printf '<'; printf '%s|' \"$@\"; echo '>'\n"
    )
    program.chmod(0o755)
    (program.parent / "my-own-tool").symlink_to("/bin/true")
    (tmp_path / "a-file-of-mine.toml").write_text("")
    env = {
        **operator.env,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
    }
    with operator.serving() as server, terminal([shell, "-i"], env=env, cwd=tmp_path) as screen:
        process_id = operator.detach("--", "sleep", "1000")
        pid = str(server.pid)
        for typed, completed in (
            ("att", "attach"),
            ("rules ex", "rules|explain"),
            ("attach --read-o", "attach|--read-only"),
            ("run --profile :wo", "run|--profile|:workspace"),
            ("run --profile a-file", "run|--profile|a-file-of-mine.toml"),
            (f"kill {process_id[:3]}", f"kill|{process_id}"),
            (f"ps --server {pid[:-1]}", f"ps|--server|{pid}"),
            ("cat a-file", "cat|a-file-of-mine.toml"),
            ("serve --config a-file", "serve|--config|a-file-of-mine.toml"),
            ("run -- my-own-t", "run|--|my-own-tool"),
        ):
            screen.read_until(b"ready> ")
            screen.type(f"paddock {typed}\t\r".encode())
            screen.read_until(f"<{completed}|>".encode())
        screen.read_until(b"ready> ")
        screen.type(b"exit\r")
        screen.wait()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_know_every_command_and_long_option(operator: Operator, shell: str) -> None:
    script = operator.output("completion", shell)
    for word in ("serve", "attach", "doctor", "detach-keys", "read-only", "concurrent-requests"):
        assert word in script


def test_fish_offers_the_options_of_a_command_below_another_to_it_alone() -> None:
    lines = completion_script(build_parser(), "fish").splitlines()
    (pretty,) = (line for line in lines if "-l pretty" in line)
    assert "; and __fish_seen_subcommand_from rules; and __fish_seen_subcommand_from check'" in pretty
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


def test_another_shell_is_refused(operator: Operator) -> None:
    done = operator.paddock("completion", "tcsh")
    assert done.returncode == 2
    assert b"there is no choice 'tcsh'" in done.stderr
