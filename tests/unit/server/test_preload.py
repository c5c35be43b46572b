"""What a server imports, and when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.operators import PATIENCE_S

SCRIPT = """\
import asyncio, sys
from paddock.config import Settings
from paddock.server.app import serve

def has_loaded():
    names = "paddock.server.watches", "paddock.server.handlers.fs", "paddock.server.sandboxes"
    return {name in sys.modules for name in names}

async def main(listen, is_listening):
    async with serve(Settings(listen=listen), is_listening=is_listening) as server:
        print(has_loaded())
        await asyncio.sleep(0)
        print(has_loaded())

asyncio.run(main(sys.argv[1], sys.argv[2] == "True"))
"""


@pytest.mark.parametrize("is_listening", [True, False])
def test_a_server_that_others_reach_loads_everything_before_it_reads_a_request(
    tmp_path: Path, is_listening: bool
) -> None:
    """The first turn of the loop reads nothing: a callback comes before the sockets."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, f"unix://{tmp_path}/s", str(is_listening)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.splitlines() == ["{False}", str({is_listening})]
