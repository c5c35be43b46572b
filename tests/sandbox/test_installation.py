"""What Paddock executes, imports and obeys can't be changed or planted by what it confines.

The environment here is what `pip install -e .` leaves: Paddock in an environment of the project, beside the
project itself, whose sources a `.pth` file names.
"""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from zipfile import ZipFile

import pytest

import paddock

SOURCES = Path(paddock.__file__).parents[1]
STARTUP = "paddock_startup.pth"
INSTALLED = [sysconfig.get_path("purelib"), str(SOURCES)]
PLANTED = "import os; os.write(2, b'PLANTED\\n')\n"

SANDBOX = ["sandbox"]
RUN = ["run", "--profile", ":workspace"]
PIP_TIMEOUT_S = 240
"""It takes seconds of processor time."""
PYTHON_PATHS = ("src", "{project}/src", ":/nowhere", "later", "link")

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def environment(ground: Path) -> Path:
    """A project with an environment of its own, in which Paddock is installed."""
    project = Path(tempfile.mkdtemp(prefix="project-", dir=ground))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project / ".venv"], check=True)
    (packages,) = project.glob(".venv/lib/*/site-packages")
    for path in Path(INSTALLED[0]).iterdir():
        if path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    (packages / "paddock.pth").write_text(INSTALLED[1])
    (packages / "project.pth").write_text(f"{project}/src\n{project}/later\n")
    shutil.copy(SOURCES / STARTUP, packages)
    make_script(project / ".venv/bin/paddock", project / ".venv/bin/python")
    return project


@pytest.fixture
def project(environment: Path) -> Iterator[Path]:
    """The same, without what a test has left there."""
    (environment / "src").mkdir()
    yield environment
    for path in environment.iterdir():
        if path.name != ".venv":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def make_script(path: Path, python: Path | str = sys.executable) -> Path:
    """Write the script that an installer makes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{python}\nimport re\nimport sys\nfrom paddock.cli.main import main\nsys.exit(main())\n"
    )
    path.chmod(0o755)
    return path


def run(cwd: Path, program: Path | str, *arguments: str, **env: str) -> Done:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env}
    command = [os.fspath(program), *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def sandbox(project: Path, script: str, *options: str, **env: str) -> Done:
    """Run a command of the project with the Paddock in its environment."""
    return run(project, ".venv/bin/paddock", "sandbox", *options, "--", "sh", "-c", script, **env)


def python(project: Path, *arguments: str, **env: str) -> Done:
    """Run the environment's Python in the project."""
    return run(project, project / ".venv/bin/python", *arguments, **env)


# --- what is imported before Paddock runs -------------------------------------


def test_a_command_may_make_a_sitecustomize_and_finds_none_of_ours(project: Path) -> None:
    done = sandbox(project, "ls -A src . && echo x > src/sitecustomize.py && mkdir later && touch later/any")
    assert (done.returncode, done.stderr) == (0, "")
    assert "customize" not in done.stdout
    assert os.listdir(project / "src") == ["sitecustomize.py"]


needs_free_name = pytest.mark.skipif(
    Path(sysconfig.get_path("stdlib"), "sitecustomize.py").exists(),
    reason="this interpreter has a sitecustomize of its own, which comes first",
)


@needs_free_name
@pytest.mark.parametrize("form", ["source", "bytecode", "package"])
@pytest.mark.parametrize("start", [[".venv/bin/paddock"], [".venv/bin/python", "-P", "-m", "paddock"]])
def test_no_sitecustomize_of_a_project_runs_in_paddock(project: Path, form: str, start: list[str]) -> None:
    """Not even bytecode that was put beside a harmless source."""
    module = project / "src" / ("sitecustomize/__init__.py" if form == "package" else "sitecustomize.py")
    module.parent.mkdir(exist_ok=True)
    module.write_text(PLANTED)
    if form == "bytecode":
        time = module.stat().st_mtime_ns
        py_compile.compile(str(module))
        # Python believes the time and size that the bytecode has in its header.
        module.write_text("#" * (len(PLANTED) - 1) + "\n")
        os.utime(module, ns=(time, time))
        assert Path(cache_from_source(str(module))).exists()
    assert python(project, "-c", "pass").stderr == "PLANTED\n"
    done = run(project, *start, "--version")
    assert (done.stdout, done.stderr) == (f"paddock {paddock.__version__}\n", "")


def test_nothing_else_is_looked_for_in_the_sources_of_a_project(project: Path) -> None:
    script = make_script(project / "looking/paddock", project / ".venv/bin/python")
    looked = f"main(); print({str(project / 'src')!r} in sys.path_importer_cache)"
    script.write_text(script.read_text().replace("sys.exit(main())", looked))
    assert run(project, script, "sandbox", "--", "true").stdout == "False\n"


def test_a_script_of_another_name_is_refused_where_it_would_run_a_sitecustomize(project: Path) -> None:
    script = make_script(project / ".venv/bin/pd", project / ".venv/bin/python")
    try:
        done = run(project, script, "sandbox", "--", "touch", "src/x")
        assert done.returncode == 125
        assert f"Python looks for a sitecustomize in {project}/src" in done.stderr
        assert "uv tool install" in done.stderr
    finally:
        script.unlink()
    assert os.listdir(project / "src") == []


@needs_free_name
def test_a_helper_does_not_import_what_somebody_has_planted(project: Path) -> None:
    (project / "src/sitecustomize.py").write_text(PLANTED)
    script = (
        "import subprocess, sys\n"
        "from paddock import own_program\n"
        "helper = own_program.python_command('paddock.cli.main', 'version')\n"
        "done = subprocess.run(helper, env=own_program.own_environment(), capture_output=True, text=True)\n"
        "print(done.stderr, end='')\n"
        "sys.exit(done.returncode)\n"
    )
    outside = python(project, "-c", script)
    assert outside.stderr == "PLANTED\n"
    assert (outside.returncode, outside.stdout) == (0, "")


@pytest.mark.parametrize(
    ("verb", "is_there"),
    [(SANDBOX, True), (SANDBOX, False), (RUN, True)],
    ids=["sandbox-there", "sandbox-missing", "run-there"],
)
def test_a_site_directory_that_a_path_file_adds_is_not_granted(
    project: Path, verb: list[str], is_there: bool
) -> None:
    """As `uv run --with` leaves it: what is installed in the project is in sight of an environment on top."""
    (packages,) = project.glob(".venv/lib/*/site-packages")
    site = project / "work/site-packages"
    if is_there:
        site.mkdir(parents=True)
        (site / "editable.pth").write_text(f"{project}/src\n")
    overlay = packages / "_overlay.pth"
    overlay.write_text(f"import site; site.addsitedir({str(site)!r})\n")
    plant = ["--", "sh", "-c", f"mkdir -p {site}; echo {PLANTED!r} > {site}/planted.pth"]
    try:
        done = run(project, ".venv/bin/paddock", *verb, *plant)
        assert (done.returncode, f"leads Python to {site}" in done.stderr) == (125, True), done.stderr
        assert "uv tool install" in done.stderr
        assert not (site / "planted.pth").exists()
        # Outside it would run.
        subprocess.run(plant[1:], check=True)
        assert "PLANTED" in run(project, ".venv/bin/paddock", "--version").stderr
    finally:
        overlay.unlink()
    # What is only named, as the sources of a project are, can be written.
    elsewhere = run(project, ".venv/bin/paddock", *verb, "--", "touch", "src/x")
    assert (elsewhere.returncode, elsewhere.stderr) == (0, "")


def test_a_package_that_a_command_provides_for_another_makes_no_import_path(project: Path) -> None:
    """A dependency of a dependency may go with its next version, and then be missing."""
    (packages,) = project.glob(".venv/lib/*/site-packages")
    for name in ("anyio", "certifi", "idna"):
        (packages / name).rename(packages / f"{name}-away")
        sandbox(project, f"mkdir -p src/{name} && touch src/{name}/__init__.py")
    script = "from paddock import installation; print(installation.import_path())"
    try:
        paths = python(project, "-c", script).stdout
    finally:
        for name in ("anyio", "certifi", "idna"):
            (packages / f"{name}-away").rename(packages / name)
    assert sorted(os.listdir(project / "src")) == ["anyio", "certifi", "idna"]
    assert f"{project}/src" not in paths
    assert str(packages) in paths


# --- where the interpreter looks besides ---------------------------------------


@pytest.mark.parametrize(
    ("verb", "path"),
    # A server of its own takes a second to start, and `run` reads the variable by the same function.
    [*((SANDBOX, path) for path in PYTHON_PATHS), (RUN, PYTHON_PATHS[0])],
    ids=[*(f"sandbox-{path}" for path in PYTHON_PATHS), "run"],
)
def test_where_pythonpath_leads_is_not_granted(project: Path, path: str, verb: list[str]) -> None:
    (project / "link").symlink_to("/usr/lib")
    value = path.format(project=project)
    touch = ["--", "sh", "-c", "echo planted > src/argparse.py"]
    done = run(project, ".venv/bin/paddock", *verb, *touch, PYTHONPATH=value)
    assert (done.returncode, f"PYTHONPATH={value}" in done.stderr) == (125, True), done.stderr
    assert "unset PYTHONPATH" in done.stderr
    assert os.listdir(project / "src") == []
    elsewhere = run(project, ".venv/bin/paddock", *verb, *touch, PYTHONPATH="/nowhere")
    assert (elsewhere.returncode, os.listdir(project / "src")) == (0, ["argparse.py"]), elsewhere.stderr


def test_a_project_that_is_called_like_a_module_is_not_granted_where_pythonpath_leads_to_it(
    project: Path,
) -> None:
    for name, status in (("json", 125), ("other", 0)):
        place = project / "src" / name
        place.mkdir()
        done = run(
            place, project / ".venv/bin/paddock", "sandbox", "--", "touch", "x", PYTHONPATH=f"{project}/src"
        )
        assert (done.returncode, (place / "x").exists()) == (status, status == 0), done.stderr


@pytest.mark.parametrize("verb", [SANDBOX, RUN], ids=["sandbox", "run"])
def test_a_module_is_not_started_where_commands_may_put_others(project: Path, verb: list[str]) -> None:
    command = ["-m", "paddock", *verb, "--", "touch", "argparse.py"]
    done = python(project, *command)
    assert (done.returncode, "python -P -m paddock" in done.stderr) == (125, True), done.stderr
    assert not (project / "argparse.py").exists()
    assert python(project, "-P", *command).returncode == 0
    assert (project / "argparse.py").exists()


@pytest.mark.parametrize("name", ["paddock", "pd"])
@pytest.mark.parametrize("is_relative", [False, True])
def test_the_directory_of_the_script_is_read_only(project: Path, name: str, is_relative: bool) -> None:
    """As with `pip install --user`, if the home directory is granted: the directory is first on its path."""
    script = make_script(project / ".local/bin" / name)
    text = script.read_text()
    attack = f"cd .local/bin; touch argparse.py; echo >> {name}; rm -f {name}; touch ../other"
    command = f".local/bin/{name}" if is_relative else script
    done = run(project, command, "sandbox", "--", "sh", "-c", attack)
    assert (done.returncode, os.listdir(project / ".local/bin"), script.read_text()) == (0, [name], text)
    # Another Paddock does not know of it.
    sandbox(project, attack)
    assert os.listdir(project / ".local/bin") == ["argparse.py"]


def test_bytecode_is_not_planted_where_it_will_be_looked_for(project: Path) -> None:
    attack, place = "mkdir -p pyc; touch pyc/x", project / "pyc"
    done = sandbox(project, attack, PYTHONPYCACHEPREFIX="pyc")
    assert (done.returncode, f"mkdir -p {place}" in done.stderr) == (125, True), done.stderr
    assert not place.exists()
    place.mkdir()
    assert sandbox(project, attack, PYTHONPYCACHEPREFIX="pyc").returncode == 1
    assert os.listdir(place) == []
    assert sandbox(project, attack).returncode == 0


def test_what_is_installed_for_the_user_alone_is_kept(project: Path) -> None:
    """`pip install --user` in a home that is granted, with its script; and the place while it is missing."""
    base = getattr(sys, "_base_executable", sys.executable)
    packages = project / "base" / f"lib/python{sysconfig.get_python_version()}/site-packages"
    env = {"PYTHONUSERBASE": str(project / "base"), "PYTHONPATH": os.pathsep.join(INSTALLED)}
    attack = f"mkdir -p {packages}; cd {packages} && touch x.pth; touch {project}/base/bin/argparse.py"
    command = ["-P", "-m", "paddock", "sandbox", "--", "sh", "-c", attack]
    done = run(project, base, *command, **env)
    assert (done.returncode, f"mkdir -p {packages}" in done.stderr) == (125, True), done.stderr
    assert sorted(os.listdir(project)) == [".venv", "src"]
    packages.mkdir(parents=True)
    (project / "base/bin").mkdir()
    (packages / "paddock").symlink_to(SOURCES / "paddock")
    env["PYTHONPATH"] = INSTALLED[0]
    run(project, base, *command, **env)
    assert os.listdir(packages) == ["paddock"]
    assert os.listdir(project / "base/bin") == []
    sandbox(project, attack)
    assert (packages / "x.pth").exists()
    assert (project / "base/bin/argparse.py").exists()


# --- links ---------------------------------------------------------------------


def test_a_link_by_which_paddock_is_reached_is_not_granted(project: Path) -> None:
    link = project / "link"
    link.symlink_to(".venv")
    arguments = ["-P", "-m", "paddock", "sandbox", "--", "rm", "link"]
    done = run(project, "link/bin/python", *arguments)
    assert (done.returncode, link.is_symlink()) == (125, True)
    assert f"replace the link {link}" in done.stderr
    # By its real name nothing depends on the link.
    assert python(project, *arguments).returncode == 0
    assert not link.is_symlink()


def test_what_a_running_process_imports_later_is_not_looked_for_through_a_link(project: Path) -> None:
    (project / "link").symlink_to(".venv")
    script = (
        "import os, sys; sys.argv[1:] = ['version']\n"
        "from paddock.cli.main import main\n"
        "main()\n"
        "print([entry for entry in sys.path if '/link/' in entry])\n"
    )
    assert run(project, "link/bin/python", "-c", script).stdout.endswith("\n[]\n")


# --- other names -----------------------------------------------------------------


@pytest.fixture
def shared(project: Path) -> Iterator[Path]:
    """A module that Paddock imports, in its environment, of which uv has made more names than that one."""
    (packages,) = project.glob(".venv/lib/*/site-packages")
    module = packages / "typing_extensions.py"
    genuine = os.readlink(module)
    module.unlink()
    shutil.copy(genuine, module)
    yield module
    module.unlink()
    module.symlink_to(genuine)


@pytest.mark.parametrize("verb", [SANDBOX, RUN], ids=["sandbox", "run"])
def test_a_module_of_paddock_with_another_name_in_the_project_can_not_be_changed(
    project: Path, shared: Path, verb: list[str]
) -> None:
    other = project / "work/site-packages/typing_extensions.py"
    other.parent.mkdir(parents=True)
    os.link(shared, other)
    plant = ["--", "sh", "-c", f"echo {PLANTED!r} >> {other}"]
    done = run(project, ".venv/bin/paddock", *verb, *plant)
    assert (done.returncode, f"write access to {other}" in done.stderr) == (125, True), done.stderr
    assert "--link-mode=copy" in done.stderr
    assert "PLANTED" not in shared.read_text()
    # Outside it would run.
    subprocess.run(plant[1:], check=True)
    assert "PLANTED" in shared.read_text()
    other.unlink()
    os.link(shared, project.parent / f"{project.name}-cache")
    try:
        # Somewhere else the command may not write it.
        assert run(project, ".venv/bin/paddock", *verb, "--", "touch", "src/x").returncode == 0
    finally:
        (project.parent / f"{project.name}-cache").unlink()


def test_a_module_of_paddock_that_is_a_link_is_read_only_where_it_leads(project: Path, shared: Path) -> None:
    target = project / "work/typing_extensions.py"
    target.parent.mkdir()
    shutil.move(shared, target)
    shared.symlink_to(target)
    text = target.read_text()
    attack = f"echo x >> {target}; rm -f {target}; mv {target.parent} {target.parent}-moved; touch src/x"
    done = sandbox(project, attack)
    assert (done.returncode, target.read_text()) == (0, text), done.stderr
    assert (project / "src/x").exists()


def test_a_profile_with_another_name_in_the_project_can_not_be_changed(project: Path) -> None:
    file = project.parent / f"{project.name}.toml"
    file.write_text(
        'default_permissions = "ci"\n[permissions.ci.filesystem]\n'
        '":root" = "read"\n":project_roots" = "write"\n'
    )
    os.link(file, project / "src/name")
    try:
        done = run(project, ".venv/bin/paddock", "sandbox", "--profile", f"{file}#ci", "--", "true")
    finally:
        file.unlink()
    assert (done.returncode, "hard link" in done.stderr) == (125, True), done.stderr


# --- what is obeyed ------------------------------------------------------------


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
    done = run(project, ".venv/bin/paddock", *options)
    assert sorted(os.listdir(project / "src")) == ["other", "strict.toml"], done.stderr
    assert file.read_text() == text
    sandbox(project, script)
    assert (project / "src/moved").read_text() == text + "x\n"


# --- environments of the project -------------------------------------------------


@pytest.fixture
def wheel(project: Path) -> Path:
    """A package that can be installed without a network."""
    path = project / "src/thing-1.0-py3-none-any.whl"
    files = {
        "thing.py": "WORD = 'installed'\n",
        "thing-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n",
        "thing-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "thing-1.0.dist-info/entry_points.txt": "[console_scripts]\nthing = thing:main\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, "thing-1.0.dist-info/RECORD"))
    with ZipFile(path, "w") as archive:
        for name, text in {**files, "thing-1.0.dist-info/RECORD": record}.items():
            archive.writestr(name, text)
    return path


def _pip() -> Path:
    (directory,) = (path for path in map(Path, INSTALLED) if (path / "pip").is_dir())
    return directory


def _install(pip: str, wheel: Path) -> str:
    return f"{pip} install --no-index --disable-pip-version-check --no-cache-dir {wheel}"


@pytest.mark.timeout(PIP_TIMEOUT_S)
def test_a_command_installs_packages_into_an_environment_of_the_project(project: Path, wheel: Path) -> None:
    # With the pip of the tests: to unpack another takes longer than all the rest.
    make = f"{getattr(sys, '_base_executable', sys.executable)} -m venv --without-pip work"
    pip = f"PYTHONPATH={_pip()} work/bin/python -m pip"
    install = _install(pip, wheel)
    done = sandbox(
        project, f"{make} && {install} && {pip} uninstall -y thing && ! work/bin/python -c 'import thing'"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    done = sandbox(project, f"{install} && work/bin/python -c 'import thing'")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "work/bin/thing").exists()


@pytest.mark.timeout(PIP_TIMEOUT_S)
def test_nothing_is_installed_into_the_environment_that_paddock_runs_from(project: Path, wheel: Path) -> None:
    command = _install(f"PYTHONPATH={_pip()} .venv/bin/python -m pip", wheel)
    done = run(project, ".venv/bin/paddock", "run", "--profile", ":workspace", "--", "sh", "-c", command)
    assert done.returncode == 1, done.stdout
    assert "Read-only file system" in done.stderr
    assert "run by paddock itself" in done.stderr
    assert "give Paddock an environment of its own" in done.stderr
    assert not list(project.glob(".venv/lib/*/site-packages/thing*"))
    outside = python(project, "-c", f"import subprocess; subprocess.run({command!r}, shell=True, check=True)")
    assert outside.returncode == 0, outside.stderr
    for path in (*project.glob(".venv/lib/*/site-packages/thing*"), project / ".venv/bin/thing"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
