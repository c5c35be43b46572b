"""Files move between directories of the workspace as they do outside, and not out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox.identity import PYTHON
from tests.sandbox.launcher import Launcher

pytestmark = pytest.mark.usefixtures("launcher_way")

MOVES = """\
import os, sys
os.makedirs("a/tree"), os.mkdir("b")
for name in ("file", "linked"): open(f"a/{name}", "w").close()
os.rename("a/file", "b/file")
os.link("a/linked", "b/linked")
os.rename("a/tree", "b/tree")
os.rename("b/file", "top")
"""
OUT = "import os, sys; open('file', 'w').close(); os.rename('file', f'../{sys.argv[1]}')"


@pytest.mark.parametrize("profile", [":workspace", ":danger-full-access", "loopback"])
def test_a_command_moves_and_links_files_from_one_directory_to_another(
    launcher: Launcher, workspace: Path, profile: str
) -> None:
    if profile == "loopback":
        profile = '{"type": "managed", "file_system": {"type": "unrestricted"}, "network": "loopback"}'
    done = launcher.run(["sandbox", "--profile", profile, "--", PYTHON, "-c", MOVES], cwd=workspace)
    assert (done.status, done.stderr) == (0, "")
    assert sorted(path.name for path in (workspace / "b").iterdir()) == ["linked", "tree"]
    assert (workspace / "top").exists()
    assert (workspace / "b/linked").stat().st_nlink == 2


def test_a_command_moves_nothing_out_of_what_it_may_write(launcher: Launcher, workspace: Path) -> None:
    name = f"{workspace.name}-moved"
    done = launcher.run(["sandbox", "--", PYTHON, "-c", OUT, name], cwd=workspace)
    assert done.status != 0
    assert not (workspace.parent / name).exists()
