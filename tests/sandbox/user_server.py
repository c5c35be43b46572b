"""A server as another user would run it, in a mount namespace in which that user can reach the interpreter.

    python -m tests.sandbox.user_server USER DIRECTORY SETTINGS [WAY]

It imports everything and runs a confined command once while it may, gives up root for good, and
serves on a unix socket in the directory until its input ends. SETTINGS are JSON. With a WAY (`ways`), all
commands get their sandboxes so. The first line of
its output is the URL.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.config import make_settings
from paddock.server.app import serve
from paddock.transport import runtime_directory
from tests.sandbox.launcher import become_user, import_everything, use_copies
from tests.sandbox.profiles import READ_ONLY
from tests.sandbox.reachable import open_the_way
from tests.sandbox.ways import go
from tests.wire import session, shell

APART = ("unshare", "--mount", "--") if os.geteuid() == 0 else ()


@contextmanager
def user_server(
    user: int, directory: Path, apart: Sequence[str] = APART, way: str | None = None, **settings: Any
) -> Iterator[str]:
    """The URL of a server that runs as `user`, for the time of the block.

    Who has a mount namespace of its own already needs no words to be `apart`.
    """
    arguments = [str(user), str(directory), json.dumps(settings), *([] if way is None else [way])]
    with subprocess.Popen(
        [*apart, sys.executable, "-m", "tests.sandbox.user_server", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            yield url
        finally:
            process.stdin.close()
    assert process.returncode == 0


async def rehearse(directory: Path) -> None:
    """Run a confined command while modules that are not ours can still be imported."""
    os.environ[runtime_directory.VARIABLE] = str(directory / "rehearsal")
    await asyncio.to_thread(os.getpid)
    async with session(listen=f"unix://{directory}/rehearsal-{os.getpid()}") as client:
        await client.start("p", *shell("echo Permission denied; exit 1"), sandbox=READ_ONLY)
        assert (await client.finish("p")).exit_code == 1


async def serve_until_end(directory: Path, settings: dict[str, Any]) -> None:
    """Serve on a socket in the directory until standard input ends."""
    socket = directory / f"server-{os.getpid()}"
    async with serve(make_settings({"listen": f"unix://{socket}", **settings})) as server:
        print(server.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main(user: int, directory: Path, settings: dict[str, Any]) -> None:
    """Serve until there is no more input."""
    use_copies(directory)
    import_everything()
    asyncio.run(rehearse(directory))
    if user != os.geteuid():
        open_the_way()
    become_user(user, directory)
    asyncio.run(serve_until_end(directory, settings))


if __name__ == "__main__":
    for way in sys.argv[4:]:
        go(way, pytest.MonkeyPatch())
    main(int(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
