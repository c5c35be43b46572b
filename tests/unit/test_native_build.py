"""The build makes extension modules where it can, and does without them where it cannot."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import hatch_build
from hatch_build import MODULES, Program, compile_native

REPOSITORY = Path(hatch_build.__file__).parent


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


def test_the_init_can_be_made_with_a_c_library_as_some_machines_need_it(root: Path) -> None:
    hatch_build._compile(root, Program(Path("native/init.c"), Path("init.o"), ("-c",)))

    assert (root / "init.o").read_bytes().startswith(b"\x7fELF")


def test_the_set_up_notices_when_any_of_the_modules_is_missing() -> None:
    script = "eval \"$(grep '^readonly modules=' scripts/setup.sh)\"; printf '%s\\n' \"${modules[@]}\""
    listed = subprocess.run(
        ["bash", "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )

    assert sorted(listed.stdout.split()) == sorted(str(module.binary) for module in MODULES)
