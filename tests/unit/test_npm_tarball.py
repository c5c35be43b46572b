"""The npm tarball of a release: which versions have one, and what is in it."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "npm.sh"
TRIPLE = "x86_64-unknown-linux-musl"


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """Programs that stand for those of a release."""
    directory = tmp_path / "vendor" / TRIPLE
    (directory / "bash" / "debian-12").mkdir(parents=True)
    (directory / "paddock-execve-wrapper").write_text("wrapper")
    (directory / "bash" / "debian-12" / "bash").write_text("bash")
    return directory.parent


def made(version: str, vendor: Path, directory: Path) -> list[Path]:
    """The files that are made for a version."""
    directory.mkdir()
    subprocess.run([SCRIPT, version, vendor, directory], check=True, capture_output=True)
    return list(directory.iterdir())


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("v1.2.3", "1.2.3"),
        ("0.1.0", "0.1.0"),
        ("v1.2.3-alpha.4", "1.2.3-alpha.4"),
        ("1.2.3a4", "1.2.3-alpha.4"),
        ("v1.2.3rc1", None),
        ("v1.2.3-beta.1", None),
        ("1.2.3.dev5", None),
        ("v1.2", None),
    ],
)
def test_stable_and_alpha_versions_have_a_tarball(
    version: str, name: str | None, vendor: Path, tmp_path: Path
) -> None:
    files = made(version, vendor, tmp_path / "out")
    assert [file.name for file in files] == ([f"paddock-execve-wrapper-{name}.tgz"] if name else [])


def test_it_has_the_programs_and_the_patch_under_their_licences(vendor: Path, tmp_path: Path) -> None:
    (file,) = made("v1.2.3", vendor, tmp_path / "out")
    with tarfile.open(file) as tarball:
        modes = {member.name: member.mode for member in tarball if member.isfile()}
        description = tarball.extractfile("package/package.json")
        assert description is not None
        package = json.load(description)
    assert (package["version"], package["license"]) == ("1.2.3", "Apache-2.0 AND GPL-3.0-or-later")
    for program in ("paddock-execve-wrapper", "bash/debian-12/bash"):
        assert modes[f"package/vendor/{TRIPLE}/{program}"] == 0o755
    assert {"package/LICENSE", "package/README.md", "package/patches/bash-exec-wrapper.patch"} <= set(modes)


def test_the_same_files_make_the_same_bytes(vendor: Path, tmp_path: Path) -> None:
    (first,), (second,) = made("v1.2.3", vendor, tmp_path / "a"), made("v1.2.3", vendor, tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()
