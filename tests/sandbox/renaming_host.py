"""A host where programs that commands can write have other names, which text does not show.

    unshare --mount --propagation private python -m tests.sandbox.renaming_host HOW USER DIRECTORY

A project lies in a file system of FUSE that ignores `case`, or that is mounted `twice`; another is the lower
layer of an `overlay`, and has an overlay in it with an `upper` layer outside. An agent of the user's calls a
tool in each by its other name, and the same tool from elsewhere (`safe`). A rule allows them all. The output
is JSON: what was executed outside of the sandbox when a confined command called it, and what the agent was
asked about when the tool was to run outside. It takes root.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import paddock
from tests.sandbox.case_ignoring_files import serve
from tests.sandbox.user_server import user_server

TOOL = '#!/bin/sh\ntouch "$1"\n'


def main(how: str, user: int, directory: Path) -> None:
    """Make the host, and have programs called."""
    assert how == "confined"
    for name in ("shared", "again", "content", "home", "out", "safe", "layers", "merged", "work"):
        (directory / name).mkdir()
    (directory / "home").chmod(0o1777)
    os.chown(directory / "out", user, user)
    _install(directory / "safe" / "tool")
    (directory / "team.rules").write_text('prefix_rule(["tool"])\n')
    servers = [serve(directory / "content", directory / place) for place in ("shared", "again")]
    try:
        projects = _projects(directory)
        with user_server(user, directory / "home", apart=(), allow_escalation=True) as url:
            told = asyncio.run(_told(url, directory, projects))
    finally:
        for server in servers:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
    print(json.dumps(told))


def _projects(directory: Path) -> dict[Path, dict[str, Path]]:
    """Return the directories in which each project has a tool, as they are called from outside of it."""
    shared, work, layers = (directory / name for name in ("shared/project", "work/project", "layers"))
    for project in (shared, work):
        for name in (".git/objects", ".git/refs", "tools", "merged"):
            (project / name).mkdir(parents=True)
        (project / ".git" / "HEAD").write_text("ref: refs/heads/main")
        (project / ".git" / "config").write_text("")
        _install(project / "tools" / "tool")
    # A layer that takes what is written can't be in an overlay itself, as a temporary directory may be.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", layers], check=True)
    for name in ("lower", "one", "one-work", "other", "other-work"):
        (layers / name).mkdir()
    _overlay(work / "tools", layers / "one", directory / "merged")
    _overlay(layers / "lower", layers / "other", work / "merged")
    _install(work / "merged" / "tool")
    safe = {"safe": directory / "safe"}
    twice = {"case": directory / "shared/PROJECT/tools", "twice": directory / "again/project/tools"}
    return {
        shared: twice | safe,
        work: {"overlay": directory / "merged", "upper": layers / "other"} | safe,
    }


def _overlay(lower: Path, upper: Path, place: Path) -> None:
    options = f"lowerdir={lower},upperdir={upper},workdir={upper}-work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, place], check=True)


def _install(path: Path) -> None:
    path.write_text(TOOL)
    path.chmod(0o755)


async def _told(
    url: str, directory: Path, projects: Mapping[Path, Mapping[str, Path]]
) -> dict[str, list[str]]:
    requests: list[paddock.ApprovalRequest] = []

    async def refuse(request: paddock.ApprovalRequest) -> str:
        requests.append(request)
        return "denied"

    asked, out, rules = [], directory / "out", [directory / "team.rules"]
    for project, tools in projects.items():
        script = "; ".join(f"{place}/tool {out}/{name}" for name, place in tools.items())
        async with paddock.Agent(
            paddock.connect(url), rules=rules, allow_escalation=True, cwd=str(project)
        ) as agent:
            await agent.call("exec_command", {"cmd": script})
        async with paddock.Agent(url, rules=rules, approver=refuse, cwd=str(project)) as agent:
            for name, place in tools.items():
                cmd = f"{place}/tool /dev/null"
                await agent.call("exec_command", {"cmd": cmd, "sandbox_permissions": "require_escalated"})
                asked += [name for _ in requests]
                requests.clear()
    return {"escalated": sorted(os.listdir(out)), "asked": asked}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
