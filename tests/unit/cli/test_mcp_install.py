"""`paddock mcp install`: the difference first, then the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CURSOR = ".cursor/mcp.json"


def install(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paddock", "mcp", "install", *arguments],
        env={**os.environ, "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_difference_is_shown_and_nothing_written_without_a_yes(tmp_path: Path) -> None:
    done = install(tmp_path, "--client", "cursor")
    assert done.returncode == 1
    assert '+    "paddock": {' in done.stdout
    assert "--yes" in done.stderr
    assert not (tmp_path / CURSOR).exists()


def test_entry_is_written_and_everything_else_and_the_link_stays(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles/mcp.json"
    real.parent.mkdir()
    real.write_text('{\n    "mcpServers": {"other": {"command": "x"}},\n    "mine": [1]\n}\n')
    real.chmod(0o640)
    (tmp_path / ".cursor").mkdir()
    (tmp_path / CURSOR).symlink_to(real)
    workspace = tmp_path / "work"
    workspace.mkdir()
    done = install(tmp_path, "--client", "cursor", "--workspace", str(workspace), "--yes")
    assert done.returncode == 0, done.stderr
    written = json.loads(real.read_text())
    assert written["mine"] == [1]
    assert written["mcpServers"]["other"] == {"command": "x"}
    assert written["mcpServers"]["paddock"]["args"][-3:] == ["mcp", "--workspace", str(workspace)]
    assert (tmp_path / CURSOR).is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert os.listdir(real.parent) == ["mcp.json"]
    assert "already" in install(tmp_path, "--client", "cursor", "--workspace", str(workspace)).stdout


@pytest.mark.parametrize("workspace", ["/nonexistent/x", "/etc/passwd"])
def test_workspace_that_is_no_directory_is_refused(tmp_path: Path, workspace: str) -> None:
    done = install(tmp_path, "--client", "codex", "--workspace", workspace, "--yes")
    assert done.returncode == 1
    assert "not a directory" in done.stderr
    assert not (tmp_path / ".codex").exists()
