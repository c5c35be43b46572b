"""A host with projects where names in another case are the same, though not for the kernel.

    unshare --mount --propagation private python -m tests.sandbox.case_ignoring_host HOW USER DIRECTORY

In the directory, `shared` is a file system of FUSE, in a namespace of mounts. It covers an older mount of a
file system where case matters, at the very place of one of the projects. A command of the user's is
`confined` or `plain`, and tries each thing in three projects. The output is JSON: what the command in each
could do, or why it did not run. With `tools`, it is what Claude Code's tools for files could do. It takes
root.

`later`, names are exact at first, for a command and for a client of a server, and then no longer.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paddock
from paddock.adapters.claude_agent_sdk import PaddockPermissions
from tests.sandbox.case_ignoring_files import exact_switch, serve
from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher
from tests.sandbox.user_server import user_server

ATTEMPTS = """
import json, os

def keep(path, text):
    if os.path.exists(path):
        os.chmod(path, 0o644)
    open(path, "a").write(text)

attempts = {
    "read a denied file": lambda: open(".ENV").read(),
    "read a denied directory": lambda: open("PRIVATE/secret").read(),
    "configure git": lambda: keep(".GIT/config", "[core]"),
    "become a repository": lambda: keep("head", "ref: refs/heads/main"),
    "write a file": lambda: keep("ordinary", "text"),
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        continue
    done.append(name)
print(json.dumps(done))
"""


TOOLS = {
    "read a denied file": ("Read", ".ENV"),
    "search a denied directory": ("Grep", "Private"),
    "configure git": ("Write", ".GIT/config"),
    "configure Claude Code": ("Edit", ".Claude/settings.json"),
    "configure Claude Code below": ("Write", "below/.MCP.json"),
    "write a file": ("Write", "Ordinary"),
    "read a file": ("Read", "Ordinary"),
    "search a directory": ("Grep", "below"),
}


def main(how: str, user: int, directory: Path) -> None:
    """Make the host, and have commands try."""
    shared, home = directory / "shared", directory / "home"
    for path in (shared, home, directory / "content"):
        path.mkdir()
    home.chmod(0o1777)
    (shared / "secretive").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(shared / "secretive")], check=True)
    server = serve(directory / "content", shared)
    exact = exact_switch(directory / "content")
    try:
        told: dict[str, Any] = {}
        for name in ("secretive",) if how == "later" else ("repository", "secretive", "plain"):
            project = shared / name
            _fill(project, name)
            for path in (project, *project.rglob("*")):
                os.chown(path, user, user)
            if how == "later":
                told["command"] = _commands_around(exact, user, home, project)
                with user_server(user, home, apart=()) as url:
                    told["client"] = asyncio.run(_client_around(url, project, exact.touch, exact.unlink))
            else:
                told[name] = _decided(project) if how == "tools" else _tried(how, user, home, project)
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    print(json.dumps(told))


def _fill(project: Path, name: str) -> None:
    project.mkdir()
    if name == "repository":
        for directory in ("objects", "refs"):
            (project / ".git" / directory).mkdir(parents=True)
        (project / ".git" / "HEAD").write_text("ref: refs/heads/main")
        (project / ".git" / "config").write_text("")
    if name == "secretive":
        (project / ".env").write_text("secret")
        (project / "private").mkdir()
        (project / "private" / "secret").write_text("secret")


def _tried(how: str, user: int, home: Path, project: Path) -> Any:
    words = [PYTHON, "-c", ATTEMPTS]
    if how == "plain":
        plain = subprocess.run(words, cwd=project, capture_output=True, check=True, **drop_to(user))
        return json.loads(plain.stdout)
    with Launcher(user, home) as launcher:
        profile = _profile(project) if project.name == "secretive" else ":workspace"
        outcome = launcher.run(["sandbox", "--profile", profile, "--", *words], cwd=project)
    return json.loads(outcome.stdout) if outcome.stdout else outcome.stderr


def _commands_around(exact: Path, user: int, home: Path, project: Path) -> Any:
    exact.touch()
    outcomes = []
    with Launcher(user, home) as launcher:
        launcher.way = "told"
        words = ["sandbox", "--profile", _profile(project), "--", PYTHON, "-c", ATTEMPTS]
        for _ in range(2):
            outcomes.append(launcher.run(words, cwd=project))
        exact.unlink()
        outcomes.append(launcher.run(words, cwd=project))
    return [json.loads(each.stdout) if each.stdout else each.stderr for each in outcomes]


async def _client_around(
    url: str, project: Path, make_exact: Callable[[], object], make_inexact: Callable[[], object]
) -> list[dict[str, str]]:
    make_exact()
    async with paddock.connect(url) as box:
        sandbox = paddock.Sandbox(json.loads(_profile(project)), roots=[str(project)])
        files = box.fs.confined(sandbox)
        before = await _tried_by_client(files, project)
        make_inexact()
        return [before, await _tried_by_client(files, project)]


async def _tried_by_client(files: paddock.Files, project: Path) -> dict[str, str]:
    async def watch(name: str) -> None:
        async with files.watch(f"{project}/{name}"):
            pass

    attempts = {
        "list": files.read_directory(str(project)),
        "read": files.read_file(f"{project}/.ENV"),
        "watch": watch("."),
        "watch what is hidden": watch("PRIVATE"),
    }
    told = {}
    for name, attempt in attempts.items():
        try:
            await attempt
            told[name] = "done"
        except paddock.PaddockError as error:
            told[name] = str(error)
    return told


def _decided(project: Path) -> list[str]:
    (project / "below").mkdir()
    profile = json.loads(_profile(project)) if project.name == "secretive" else ":workspace"
    permissions = PaddockPermissions(directory=str(project), profile=profile)
    done = []
    for name, (tool, path) in TOOLS.items():
        arguments = {"file_path": path, "path": path, "pattern": "x"}
        if permissions.decide(tool, arguments, str(project)).decision == "allow":
            done.append(name)
    return done


def _profile(project: Path) -> str:
    entries = [
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
        {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"},
        *(
            {"path": {"type": "path", "path": str(project / name)}, "access": "deny"}
            for name in (".env", "private")
        ),
    ]
    files = {"type": "restricted", "entries": entries}
    return json.dumps({"type": "managed", "network": "restricted", "file_system": files})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
