"""`paddock run --profile` as its users see it, against a server of its own and one that runs already."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.operators import PADDOCK, PATIENCE_S
from tests.wire import served


def paddock_run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [*PADDOCK, "run", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_a_command_writes_in_its_directory_and_nowhere_else(new_directory: Path) -> None:
    outside = new_directory.parent / f"{new_directory.name}-outside"
    done = paddock_run(
        "--profile", ":workspace", "--", "sh", "-c", f"echo in > in; echo out > {outside}", cwd=new_directory
    )
    assert (done.returncode, (new_directory / "in").exists(), outside.exists()) == (2, True, False)
    assert "paddock run: the sandbox" in done.stderr


def test_a_traced_command_tells_all_that_it_was_refused(new_directory: Path) -> None:
    outside = new_directory.parent / f"{new_directory.name}-outside"
    script = f"echo x 2>&- > {outside}; mkdir .git 2>&-; exit 3"
    done = paddock_run("--trace", "--profile", ":workspace", "--", "sh", "-c", script, cwd=new_directory)
    assert done.returncode == 3
    for path in (outside, new_directory / ".git"):
        assert f"paddock run: the sandbox denied writing {path}" in done.stderr


def test_a_command_whose_mask_is_taken_away_is_ended_and_people_are_told_why(new_directory: Path) -> None:
    command = [*PADDOCK, "run", "--profile", ":workspace", "--", "sh", "-c", "echo ready; sleep 1000"]
    with subprocess.Popen(
        command, cwd=new_directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        (new_directory / ".git").rename(new_directory / "moved")
        _, said = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 125
    assert f"killed, because {new_directory}/.git was moved, removed or replaced" in said
    assert "paddock run: somebody moved, removed or replaced what" in said


def test_a_trace_without_a_profile_is_refused(new_directory: Path) -> None:
    done = paddock_run("--trace", "--", "touch", "ran", cwd=new_directory)
    assert (done.returncode, "--trace goes with --profile" in done.stderr) == (2, True)


def test_a_command_that_ends_well_is_told_nothing_of_its_sandbox(new_directory: Path) -> None:
    done = paddock_run("--profile", ":workspace", "--", "sh", "-c", "echo in > in", cwd=new_directory)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_profile_can_be_a_file_or_json(new_directory: Path) -> None:
    (new_directory / "secret").write_text("hunter2")
    (new_directory / "mine.toml").write_text(
        'default_permissions = "dev"\n'
        "[permissions.dev]\n"
        'extends = ":workspace"\n'
        "limits = { wallSeconds = 1 }\n"
        '[permissions.dev.filesystem.":workspace_roots"]\n'
        '"secret" = "deny"\n'
    )
    done = paddock_run(
        "--profile", "mine.toml", "--", "sh", "-c", "echo in > in; cat secret", cwd=new_directory
    )
    assert (done.returncode, done.stdout, (new_directory / "in").exists()) == (1, "", True)
    done = paddock_run("--profile", "mine.toml", "--", "sleep", "60", cwd=new_directory)
    assert "paddock run: the limit wallSeconds of its profile ended it" in done.stderr
    done = paddock_run(
        "--profile", '{"type": "read-only"}', "--", "sh", "-c", "echo in > new", cwd=new_directory
    )
    assert (done.returncode, (new_directory / "new").exists()) == (2, False)


@pytest.mark.parametrize(
    ("profile", "status", "problem"),
    [
        ("nobody", 125, "there are :read-only, :workspace, :danger-full-access"),
        ("./nowhere.toml", 2, "there is no such file"),
        ('{"bad": 1}', 2, "bad"),
    ],
)
def test_a_profile_that_is_not_there_is_said_and_nothing_runs(
    new_directory: Path, profile: str, status: int, problem: str
) -> None:
    done = paddock_run("--profile", profile, "--", "touch", "ran", cwd=new_directory)
    assert (done.returncode, (new_directory / "ran").exists()) == (status, False)
    assert problem in done.stderr


async def test_a_server_that_runs_already_confines_to_its_own_profiles_too(new_directory: Path) -> None:
    permissions = {"dev": {"filesystem": {":root": "read", str(new_directory): "write"}}}
    outside = new_directory.parent / f"{new_directory.name}-outside"
    async with served(listen="ws://127.0.0.1:0", permissions=permissions) as server:
        script = f"echo x > {new_directory}/new && echo x > {outside}"
        for options in (["--profile", "dev"], ["--profile", "dev", "--detach"]):
            arguments = ["--url", server.url, *options, "--", "sh", "-c", script]
            done = await asyncio.to_thread(paddock_run, *arguments, cwd=new_directory)
            assert done.returncode == (0 if "--detach" in options else 2), done.stderr
    assert (new_directory / "new").exists()
    assert not outside.exists()
