"""What a box tells about itself, and where it is reached."""

from __future__ import annotations

import os
import subprocess
import sys

import paddock
import paddock.sync
from tests.operators import PADDOCK, PATIENCE_S
from tests.serving import serving, without_bubblewrap


async def test_its_text_says_where_it_is_and_whether_it_is_connected() -> None:
    with serving() as server:
        async with paddock.connect(server.url) as box:
            assert repr(box) == f"<Box on {server.url}, session {box.session_id[:8]}, connected>"
        assert repr(box).endswith("not connected>")
    async with paddock.connect() as box:
        assert repr(box).startswith("<Box on a private server, session ")


async def test_localhost_is_this_machine_for_server_and_client() -> None:
    with serving("--listen", "ws://localhost:0") as server:
        port = server.url.rpartition(":")[2]
        assert server.url == f"ws://127.0.0.1:{port}"
        async with paddock.connect(f"ws://localhost:{port}") as box:
            assert (await box.run(["echo", "hello"], text=True)).stdout == "hello\n"


def test_who_asks_for_no_sandbox_is_not_told_that_there_is_none() -> None:
    env = os.environ | without_bubblewrap()
    program = "import paddock.sync\nwith paddock.sync.connect() as box: box.run(['/bin/true'])"
    for command in ([*PADDOCK, "run", "--", "/bin/true"], [sys.executable, "-P", "-c", program]):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, env=env, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = subprocess.run([*PADDOCK, "doctor"], capture_output=True, text=True, env=env, check=False)
    assert "bubblewrap" in done.stdout
    with serving(env=without_bubblewrap()) as server:
        while "no sandboxes can be made" not in (line := server.next_line()):
            assert line
