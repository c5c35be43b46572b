"""The build makes extension modules where it can, and does without them where it cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build
from hatch_build import MODULES, NativeBuildError, Program, compile_native

REPOSITORY = Path(hatch_build.__file__).parent
REAL_PROGRAMS = hatch_build.PROGRAMS


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with the sources, and with modules that were made before them. It needs no programs."""
    monkeypatch.setattr(hatch_build, "PROGRAMS", ())
    for module in MODULES:
        (tmp_path / module.binary).parent.mkdir(parents=True)
        (tmp_path / module.binary).write_bytes(b"old")
    shutil.copytree(REPOSITORY / "native", tmp_path / "native", copy_function=shutil.copyfile)
    return tmp_path


def modules_in(root: Path) -> list[Path]:
    return [file.relative_to(root) for file in sorted((root / "src").rglob("*")) if file.is_file()]


@pytest.mark.skipif(not (hatch_build._HEADERS / "Python.h").is_file(), reason="Python's headers are missing")
def test_modules_are_made_anew_when_their_sources_are_newer(root: Path) -> None:
    assert compile_native(root)

    assert modules_in(root) == sorted(module.binary for module in MODULES)
    assert all((root / module.binary).read_bytes().startswith(b"\x7fELF") for module in MODULES)


def test_without_the_headers_of_python_no_module_stays_and_a_warning_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hatch_build, "_HEADERS", root)

    assert not compile_native(root)

    assert modules_in(root) == []
    assert "python3-dev" in capsys.readouterr().err


def test_a_module_that_the_compiler_refuses_is_done_without(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / MODULES[-1].source).write_text("#error refused\n")

    assert not compile_native(root)

    assert modules_in(root) == []
    assert "warning: " in capfd.readouterr().err


@pytest.mark.parametrize("name", ["init", "worker"])
def test_the_confinement_can_be_made_with_a_c_library_as_some_machines_need_it(root: Path, name: str) -> None:
    hatch_build._compile(root, Program(Path(f"native/{name}.c"), Path(f"{name}.o"), ("-fPIC", "-c")), root)

    assert (root / f"{name}.o").read_bytes().startswith(b"\x7fELF")


def test_without_the_library_of_file_workers_there_is_no_build(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [library] = [program for program in REAL_PROGRAMS if program.binary.suffix == ".so"]
    monkeypatch.setattr(hatch_build, "PROGRAMS", (library,))
    (root / library.source).write_text("#error refused\n")

    with pytest.raises(NativeBuildError, match="worker"):
        compile_native(root)


@pytest.fixture
def unwritable(tmp_path: Path) -> Path:
    """A tree as somebody else has checked it out, without anything that was compiled."""
    tree = tmp_path / "tree"
    made = shutil.ignore_patterns("native", "*.abi3.so", "__pycache__")
    shutil.copytree(REPOSITORY / "src", tree / "src", ignore=made)
    for name in ("native", "docs/reference/man"):
        shutil.copytree(REPOSITORY / name, tree / name)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, tree)
    return tree


def in_unwritable(tree: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the tree, which nobody can write meanwhile."""
    if os.geteuid() == 0:
        # Root is not held back by modes.
        mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" || exit 77'
        argv = ["unshare", "--mount", "sh", "-c", f'{mount}; cd "$0"; exec "$@"', str(tree), *command]
    else:
        subprocess.run(["chmod", "-R", "a-w", str(tree)], check=True)
        argv = [*command]
    try:
        return subprocess.run(
            argv, cwd=tree, env=os.environ | env, capture_output=True, text=True, check=False
        )
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(tree)], check=True)


def test_a_tree_that_can_not_be_written_becomes_a_wheel_that_needs_no_compiler(
    unwritable: Path, tmp_path: Path
) -> None:
    compiler = tmp_path / "quick-cc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nexec cp /bin/true "$2"\n')
    compiler.chmod(0o755)
    out = tmp_path / "out"
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out))
    done = in_unwritable(unwritable, *build, CC=str(compiler), PYTHONDONTWRITEBYTECODE="1")
    if done.returncode == 77:
        pytest.skip("this root can't mount")
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    installed = tmp_path / "installed"
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile")
    subprocess.run(
        [*pip, "--target", str(installed), str(wheel)],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        check=True,
    )
    for program in REAL_PROGRAMS:
        assert os.access(installed / program.binary.relative_to("src"), os.X_OK)
    assert not any((unwritable / program.binary).exists() for program in REAL_PROGRAMS)


def listed_by_the_set_up(name: str) -> list[str]:
    script = f"eval \"$(grep '^readonly {name}=' scripts/setup.sh)\"; printf '%s\\n' \"${{{name}[@]}}\""
    listed = subprocess.run(
        ["bash", "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return sorted(listed.stdout.split())


def test_the_set_up_notices_when_any_of_the_results_is_missing() -> None:
    assert listed_by_the_set_up("modules") == sorted(str(module.binary) for module in MODULES)
    assert listed_by_the_set_up("programs") == sorted(str(program.binary) for program in REAL_PROGRAMS)
