"""What Paddock executes, imports and obeys can't be changed or planted by what it confines.

The environment here is what `pip install -e .` leaves: Paddock in an environment of the project, beside the
project itself, whose sources a `.pth` file names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import paddock

MODULES = [f"sitecustomize{suffix}" for suffix in ("", *EXTENSION_SUFFIXES, ".py")]
"""One that is not compiled comes after these."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with an environment of its own, in which Paddock is installed."""
    project = Path(tmp_path_factory.mktemp("project"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True)
    (packages,) = project.glob(".venv/lib/*/site-packages")
    installed = [sysconfig.get_path("purelib"), str(Path(paddock.__file__).parents[1])]
    (packages / "paddock.pth").write_text("\n".join(installed))
    (packages / "project.pth").write_text(f"{project}/src\n{project}/later\n")
    (project / "src").mkdir()
    return project


@pytest.fixture
def project(environment: Path) -> Iterator[Path]:
    """The same, without what a test has left there."""
    yield environment
    for path in (environment / "src").iterdir():
        path.unlink()


def run(project: Path, *arguments: str, python: str = ".venv/bin/python") -> subprocess.CompletedProcess[str]:
    """Run the environment's Python in the project."""
    command = [os.fspath(project / python), *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def sandbox(project: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run(project, "-m", "paddock", "sandbox", *options, "--", "sh", "-c", script)


@pytest.mark.parametrize("directory", ["src", "later"])
def test_a_command_can_not_plant_what_the_next_interpreter_imports(project: Path, directory: str) -> None:
    names = " ".join(MODULES)
    script = f"mkdir -p {directory}; cd {directory} && touch ordinary.py; touch {names}; mkdir -p {names}"
    done = sandbox(project, script)
    assert done.stderr.count("sitecustomize") >= len(MODULES), done.stderr
    left = os.listdir(project / directory) if (project / directory).exists() else []
    assert left in (["ordinary.py"], [])


def test_the_sources_of_the_project_stay_the_command_s_to_change(project: Path) -> None:
    assert sandbox(project, "echo x > src/module.py").returncode == 0
    assert (project / "src/module.py").read_text() == "x\n"


def test_a_helper_does_not_import_what_somebody_has_planted(project: Path) -> None:
    (project / "src/sitecustomize.py").write_text("import sys; print('PLANTED', file=sys.stderr)\n")
    script = (
        "import subprocess, sys\n"
        "from paddock import own_program\n"
        "helper = own_program.python_command('paddock.cli.main', 'version')\n"
        "done = subprocess.run(helper, env=own_program.own_environment(), capture_output=True, text=True)\n"
        "print(done.stderr, end='')\n"
        "sys.exit(done.returncode)\n"
    )
    outside = run(project, "-c", script)
    assert outside.stderr == "PLANTED\n"
    assert (outside.returncode, outside.stdout) == (0, "")


def test_a_link_by_which_paddock_is_reached_is_not_granted(project: Path) -> None:
    link = project / "link"
    link.symlink_to(".venv")
    arguments = ["-m", "paddock", "sandbox", "--", "rm", "link"]
    try:
        done = run(project, *arguments, python="link/bin/python")
        assert (done.returncode, link.is_symlink()) == (125, True)
        assert f"replace the link {link}" in done.stderr
        # By its real name nothing depends on the link.
        assert run(project, *arguments).returncode == 0
        assert not link.is_symlink()
    finally:
        link.unlink(missing_ok=True)


def test_what_a_running_process_imports_later_is_not_looked_for_through_a_link(project: Path) -> None:
    link = project / "link"
    link.symlink_to(".venv")
    script = (
        "import os, sys; sys.argv[1:] = ['version']\n"
        "from paddock.cli.main import main\n"
        "main()\n"
        "print([entry for entry in sys.path if '/link/' in entry])\n"
    )
    try:
        assert run(project, "-c", script, python="link/bin/python").stdout.endswith("\n[]\n")
    finally:
        link.unlink()


@pytest.mark.parametrize("verb", ["sandbox", "run"])
def test_a_command_can_not_write_the_profile_of_the_next(project: Path, verb: str) -> None:
    file = project / "src/strict.toml"
    text = (
        'default_permissions = "ci"\n[permissions.ci.filesystem]\n'
        '":root" = "read"\n":project_roots" = "write"\n'
    )
    file.write_text(text)
    script = "echo x >> src/strict.toml; mv src/strict.toml src/moved; rm -f src/strict.toml; touch src/other"
    options = [verb, "--profile", "src/strict.toml#ci", "--", "sh", "-c", script]
    done = run(project, "-m", "paddock", *options)
    assert sorted(os.listdir(project / "src")) == ["other", "strict.toml"], done.stderr
    assert file.read_text() == text
    sandbox(project, script)
    assert (project / "src/moved").read_text() == text + "x\n"


@pytest.mark.parametrize("path", ["src", "{project}/src", ":/nowhere"])
def test_where_pythonpath_leads_is_not_granted(project: Path, path: str) -> None:
    python = os.fspath(project / ".venv/bin/python")
    done = subprocess.run(
        [python, "-P", "-m", "paddock", "sandbox", "--", "touch", "src/argparse.py"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path.format(project=project)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "unset PYTHONPATH" in done.stderr) == (125, True), done.stderr
    assert os.listdir(project / "src") == []
