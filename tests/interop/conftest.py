"""The peer, Codex's exec-server, as a real program beside the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / ".peer" / "node_modules" / ".bin" / "codex"


@pytest.fixture(scope="module")
def peer_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running exec-server of the peer; skips by name where it is not installed."""
    if not PROGRAM.exists():
        pytest.skip("the peer is not installed (make peer)")
    # Its home must not be below /tmp: it refuses to keep its helpers there.
    home = REPOSITORY / ".peer" / f"home-{os.getpid()}"
    home.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CODEX_HOME": str(home)}
    argv = [str(PROGRAM), "exec-server", "--listen", "ws://127.0.0.1:0", "--concurrent-requests", "32"]
    with subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
    subprocess.run(["rm", "-rf", str(home)], check=True)
