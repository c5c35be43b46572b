"""`python -m tests.sandbox.threadless DIRECTORY USER OPTION...`: `paddock sandbox` without room for threads.

It runs as `user`, twice, with the second start a remembered one if there are no options. Told as JSON: the
statuses, what was said, and what the workspace has afterwards. Does not end while anything of it still runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from paddock.cli.main import main
from tests.sandbox.launcher import become_user, import_everything, rehearse, use_copies

PR_SET_CHILD_SUBREAPER = 36
"""See prctl(2)."""


def refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def run(options: list[str], *, has_threads: bool) -> int:
    """Make the command write a file; return the exit status when nothing of it is left."""
    pid = os.fork()
    if pid == 0:
        if not has_threads:
            threading.Thread.start = refuse  # type: ignore[method-assign, assignment]
        os._exit(main(["sandbox", *options, "--", "sh", "-c", "sleep 0.2; echo > ran"]))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return status


if __name__ == "__main__":
    directory, user = Path(sys.argv[1]), int(sys.argv[2])
    workspace = directory / "workspace"
    workspace.mkdir()
    os.chown(workspace, user, user)
    use_copies(directory)
    import_everything()
    rehearse()
    become_user(user, directory)
    os.chdir(workspace)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    statuses = [run(sys.argv[3:], has_threads=True)]
    (workspace / "ran").unlink()
    with tempfile.TemporaryFile(dir=directory) as said:
        own = os.dup(2)
        os.dup2(said.fileno(), 2)
        statuses += [run(sys.argv[3:], has_threads=False) for _ in range(2)]
        os.dup2(own, 2)
        said.seek(0)
        lines = said.read().decode().splitlines()
    print(json.dumps({"statuses": statuses, "lines": lines, "left": sorted(os.listdir())}))
