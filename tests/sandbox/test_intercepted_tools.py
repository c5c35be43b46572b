"""What people run every day is unharmed by interception: tools that start tools, long scripts, terminals."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from tests.sandbox.identity import PYTHON, directory_of
from tests.sandbox.intercepted import rule, rules, run, told
from tests.sandbox.user_server import user_server

RULES = rules(rule("forbidden", "hostid", justification="to have a rule"))


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    with user_server(user, ground, allow_escalation=True) as url:
        yield url


@pytest.fixture(name="workspace")
def workspace_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    with directory_of(user, ground) as directory:
        yield directory


MAKE = r"""
mkdir -p m && cd m
printf 'all: a b c\n%%:\n\t@echo made $@ > $@; cat $@\n' > Makefile
make -s -j4 --output-sync=target all | sort
printf 'x:\n\tfalse\n' > Makefile; make x 2> /dev/null; echo $?
"""

# The metadata of a workspace is protected, so the repository has another name.
GIT = r"""
mkdir -p g && cd g
export GIT_DIR=$PWD/store GIT_WORK_TREE=$PWD HOME=$PWD GIT_CONFIG_NOSYSTEM=1
git init -q && git config user.name n && git config user.email e@x
echo one > file && git add file
GIT_EDITOR='sh -c "echo edited > \"\$1\"" x' git commit -q
git log --format=%s
echo two > file && git commit -qam second && git diff --stat HEAD~1
printf '#!/bin/sh\necho hook\n' > store/hooks/pre-commit; chmod +x store/hooks/pre-commit
echo three > file && git commit -qam third 2>&1
git rebase -q --exec 'echo rebased' HEAD~1 2>&1 | grep -c rebased
git ls-files | xargs -n1 git log -1 --format=%s --
"""

WHEEL = """
import zipfile
about = 'thing-1.0.dist-info/'
with zipfile.ZipFile('thing-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('thing.py', 'print(42)')
    wheel.writestr(about + 'METADATA', 'Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n')
    wheel.writestr(about + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(about + 'RECORD', '')
"""

PIP = f"""
export HOME=$PWD PYTHONPATH=$PWD/lib
mkdir -p p && cd p
{PYTHON} -c "{WHEEL}"
{PYTHON} -m pip -q --disable-pip-version-check install --no-index --target place thing*.whl && ls place
PYTHONPATH=place {PYTHON} -m thing
"""

PYTEST = f"""
export HOME=$PWD PYTHONPATH=$PWD/lib
mkdir -p p && cd p
echo 'import subprocess
def test_one(): assert subprocess.run(["echo", "x"], capture_output=True).stdout == b"x\\n"
def test_two(): assert subprocess.run(["false"]).returncode == 0
' > test_x.py
{PYTHON} -m pytest -q -p no:cacheprovider test_x.py | grep -o '1 failed, 1 passed'
"""

NPM = r"""
mkdir -p n && cd n && export HOME=$PWD npm_config_update_notifier=false
echo '{"scripts": {"prebuild": "echo before", "build": "sh -c \"echo built; exit 3\""}}' > package.json
npm run --silent build; echo $?
"""

PIPELINE = (
    "seq 2000 " + "| cat " * 60 + "| tail -1; for i in 1 2 3; do yes | head -1; done; (exit 3) | cat; echo $?"
)

TOOLS = {"make": MAKE, "git": GIT, "pip": PIP, "pytest": PYTEST, "npm": NPM, "pipeline": PIPELINE}

LIBRARY = ("pip", "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
"""What pip and pytest are made of. The interpreter of the host may have neither."""


@pytest.mark.parametrize("tool", TOOLS)
async def test_tools_do_what_they_do_without_interception(url: str, workspace: Path, tool: str) -> None:
    if shutil.which(tool) is None and tool in ("make", "git", "npm"):
        pytest.skip(f"{tool} is not installed")
    if tool in LIBRARY:
        for name in LIBRARY:
            _copy_module(name, workspace / "lib")
    results = []
    for intercept in (RULES, None):
        shutil.rmtree(workspace / tool[0], ignore_errors=True)
        done = await run(url, ["bash", "-c", TOOLS[tool]], workspace, intercept)
        results.append((done.returncode, done.stdout, done.stderr))
        if intercept is not None:
            assert done.ending.execs is not None
            assert done.ending.execs.counts[paddock.Verdict.RUN] >= 3
    assert results[0] == results[1]
    assert results[0][1], results


async def test_a_script_of_two_thousand_programs_runs_to_its_end(url: str, workspace: Path) -> None:
    script = "for ((i = 0; i < 1000; i++)); do /bin/true; /bin/echo $i; done | tail -1"
    done = await run(url, ["bash", "-c", script], workspace, RULES)
    assert done.stdout == b"999\n"
    assert done.ending.execs is not None
    assert done.ending.execs.counts[paddock.Verdict.RUN] == 2001
    assert done.ending.execs.total == 0


async def test_a_pipeline_of_programs_outside_of_the_sandbox(url: str, workspace: Path) -> None:
    script = "seq 20000 " + "| cat " * 40 + "| tail -1"
    done = await run(url, ["bash", "-c", script], workspace, rules(rule("allow", "cat")))
    assert done.stdout == b"20000\n", done.stderr
    assert told(done, paddock.Verdict.ESCALATE) == ["cat"] * 40


GIT_ON_A_TERMINAL = (
    "git init -q && git add file && git commit -q && git -p log --format=%s && tty -s && echo end"
)


@pytest.mark.parametrize("is_outside", [False, True], ids=["inside", "outside"])
async def test_git_uses_its_editor_and_its_pager_on_a_terminal(
    url: str, ground: Path, user: int, workspace: Path, is_outside: bool
) -> None:
    """Outside it writes metadata of the workspace, which is protected inside."""
    (workspace / "file").write_text("x")
    home = Path(tempfile.mkdtemp(prefix="h-", dir=ground))
    os.chown(home, user, user)
    for name, code in {"editor": 'echo edited > "$1"', "pager": "exec sed s/^/paged-/"}.items():
        (home / name).write_text(f"#!/bin/sh\n{code}\n")
        (home / name).chmod(0o755)
    people = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    programs = {"GIT_EDITOR": f"{home}/editor", "GIT_PAGER": f"{home}/pager", "GIT_CONFIG_NOSYSTEM": "1"}
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TERM": "dumb", **people, **programs}
    if not is_outside:
        env |= {"GIT_DIR": f"{workspace}/store", "GIT_WORK_TREE": str(workspace)}
    wanted = rules(rule("allow", "git")) if is_outside else RULES
    try:
        done = await run(url, ["bash", "-c", GIT_ON_A_TERMINAL], workspace, wanted, env=env, tty=True)
    finally:
        shutil.rmtree(home)
    assert b"paged-edited\r\nend\r\n" in done.stdout, done
    assert told(done, paddock.Verdict.ESCALATE) == (["git"] * 4 if is_outside else [])
    assert (workspace / ".git").is_dir() is is_outside


def _copy_module(name: str, library: Path) -> None:
    file = Path(str(importlib.import_module(name).__file__))
    if file.name == "__init__.py":
        shutil.copytree(file.parent, library / name, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        library.mkdir(exist_ok=True)
        shutil.copy(file, library)
