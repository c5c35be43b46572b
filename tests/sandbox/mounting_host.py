"""Runs a module of the tests that mounts what it likes, as root, in a mount namespace of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def told_by(module: str, how: str, user: int, directory: Path) -> Any:
    """Return what a module prints as JSON when it is told HOW, USER and a DIRECTORY of root's."""
    directory.chmod(0o755)
    words = [sys.executable, "-m", f"tests.sandbox.{module}", how, str(user), str(directory)]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
