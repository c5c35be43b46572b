"""Everyday tools, unharmed under the usual profile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher

PYTEST = "def test_it(tmp_path):\n    (tmp_path / 'f').write_text('x')\n"
C_PROGRAM = '#include <stdio.h>\nint main(void) { puts("static"); return 0; }\n'
LOOP = """
import asyncio
async def main():
    await asyncio.get_running_loop().run_in_executor(None, print, "thread")
    process = await asyncio.create_subprocess_exec("echo", "child")
    await process.wait()
asyncio.run(main())
"""
NODE = "require('child_process').exec('echo child', (error, out) => console.log('node', out))"

TOOLS = [
    ("make", "printf 'all:\\n\\techo made > out\\n' > Makefile; make && cat out", "made"),
    ("git", "git status --short && git log --oneline | wc -l", "1"),
    (PYTHON, f"{PYTHON} -c '{LOOP}'", "child"),
    (PYTHON, f"{PYTHON} -m venv --without-pip env && env/bin/python -c 'print(1 + 1)'", "2"),
    ("pip", "pip --version", "pip"),
    ("node", f'node -e "{NODE}"', "child"),
    (
        "npm",
        "npm --version >/dev/null && npm init -y >/dev/null && npm run env | grep -c npm_package_name",
        "",
    ),
    ("gcc", "printf '%s' '" + C_PROGRAM + "' > s.c; gcc -static s.c -o s && ./s", "static"),
    (
        "bash",
        "seq 3 | sort -r | head -1; cat <(echo substituted) <<< x; printf here | (read a; echo $a)",
        "3",
    ),
]


@pytest.mark.parametrize(("tool", "script", "told"), TOOLS, ids=[script[:12] for _, script, _ in TOOLS])
def test_tool_works_in_the_workspace(
    tool: str, script: str, told: str, launcher: Launcher, workspace: Path
) -> None:
    path = "/usr/local/bin:/usr/bin:/bin"
    if shutil.which(tool, path=path) is None:
        pytest.skip(f"{tool} is not installed")
    subprocess.run(
        "git init -q . && git -c user.email=a@b -c user.name=n commit -q --allow-empty -m first",
        shell=True,
        cwd=workspace,
        check=True,
        env={"PATH": path, "HOME": str(workspace)},
        **drop_to(launcher.user),
    )
    outcome = launcher.run(
        ["sandbox", "--profile", ":workspace", "--", "/bin/bash", "-c", script],
        cwd=workspace,
        env={"PATH": path, "HOME": str(workspace), "npm_config_update_notifier": "false"},
    )
    assert outcome.status == 0, outcome
    assert told in outcome.stdout


def test_test_suite_runs_in_the_workspace(launcher: Launcher, workspace: Path) -> None:
    if launcher.user != os.geteuid():
        pytest.skip("the interpreter of the tests may be out of another user's reach")
    (workspace / "test_it.py").write_text(PYTEST)
    argv = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(workspace)]
    outcome = launcher.run(["sandbox", "--", *argv], cwd=workspace)
    assert "1 passed" in outcome.stdout, outcome
