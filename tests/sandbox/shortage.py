"""`python -m tests.sandbox.shortage DIRECTORY USER KIND`: a sandbox with room for ever more descriptors.

A server in this process is asked again and again, each time with room for one more descriptor than before,
until it has enough twice. Told as JSON: how often it failed, and what was open or left on disk that was not
before.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from paddock.server import file_workers
from paddock.transport import runtime_directory
from tests.sandbox.launcher import become_user, import_everything, use_copies
from tests.sandbox.profiles import workspace_write
from tests.wire import WireClient, WireError, session

MOST = 100
"""No start needs so many."""

SETTLING_TRIES = 400


@contextmanager
def room_for(descriptors: int) -> Iterator[None]:
    """Let so many more be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir("/proc/self/fd")))
    limit = 0
    while descriptors or limit in used:
        descriptors -= limit not in used
        limit += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files() -> list[str]:
    found = []
    for file in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{file}"))
        except OSError:
            # That by which the directory was read.
            continue
    # Of pipes and sockets, the kind.
    return sorted(name.partition(":[")[0] for name in found)


async def settled(before: list[str], workspace: Path) -> dict[str, Any] | None:
    """What is left over, once nothing changes any more."""
    for _ in range(SETTLING_TRIES):
        if open_files() == before and not os.listdir(workspace):
            return None
        await asyncio.sleep(0.01)
    now, places = open_files(), sorted(os.listdir(workspace))
    extra = list(now)
    for name in before:
        if name in extra:
            extra.remove(name)
    return {"files": extra, "places": places}


async def at_rest() -> list[str]:
    """What is open when the first sandbox is cleared away."""
    seen: list[list[str]] = []
    while len(seen) < 20 or any(files != seen[-1] for files in seen[-20:]):
        seen.append(open_files())
        await asyncio.sleep(0.01)
    return seen[-1]


async def attempt(client: WireClient, kind: str, number: int, workspace: Path) -> None:
    """Do it once. Raises WireError."""
    inside: dict[str, Any] = workspace_write(workspace)
    if kind == "file":
        await client.call("fs/getMetadata", {"path": str(workspace), "sandbox": inside})
        return
    if kind == "traced":
        inside["trace"] = True
    if kind == "counted":
        inside["permissions"]["limits"] = {"processes": 50}
    process_id = f"p{number}"
    await client.start(
        process_id, "/bin/true", cwd=str(workspace), sandbox=inside, tty=kind == "terminal", pipeStdin=True
    )
    await client.finish(process_id)


async def rehearse(workspace: Path, kind: str) -> None:
    async with session() as client:
        await attempt(client, kind, 0, workspace)


async def main(workspace: Path, kind: str) -> None:
    failures, left = [], None
    # A worker is made for each attempt.
    file_workers.IDLE_S = 0.01
    # A spare sandbox holds descriptors until it is taken.
    async with session(warm_sandboxes=0) as client:
        await attempt(client, kind, 0, workspace)
        before = await at_rest()
        successes, number = 0, 0
        while successes < 2 and number < MOST and left is None:
            number += 1
            try:
                with room_for(number - 1):
                    await attempt(client, kind, number, workspace)
                successes += 1
            except WireError as error:
                failures.append(str(error))
                successes = 0
            left = await settled(before, workspace)
    print(msgspec.json.encode({"failures": failures, "left": left, "successes": successes}).decode())


def run(directory: Path, user: int, kind: str) -> None:
    """As `user`, who may not reach the interpreter: the attempt is rehearsed before."""
    workspace = directory / "workspace"
    workspace.mkdir()
    use_copies(directory)
    import_everything()
    os.environ[runtime_directory.VARIABLE] = str(directory / "rehearsal")
    asyncio.run(rehearse(workspace, kind))
    os.chown(workspace, user, user)
    become_user(user, directory)
    asyncio.run(main(workspace, kind))


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
