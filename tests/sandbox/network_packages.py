"""What package managers and git fetch in tests: small, and made of files alone."""

from __future__ import annotations

import json
import subprocess
import tarfile
import zipfile
from pathlib import Path


def make_repository(source: Path, bare: Path) -> None:
    """Make a repository with one commit, that any web server can serve."""
    script = (
        f"git init -q {source} && cd {source} && echo content > file && git add file"
        " && git -c user.name=n -c user.email=e commit -q -m m"
        f" && git clone -q --bare {source} {bare} && cd {bare} && git update-server-info"
    )
    subprocess.run(["sh", "-c", script], check=True)


def make_wheel(directory: Path) -> None:
    """Make a distribution of the project `tiny`, with its index."""
    directory.mkdir(parents=True)
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(directory / name, "w") as wheel:
        wheel.writestr("tiny.py", "VALUE = 1\n")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        head = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr("tiny-1.0.dist-info/WHEEL", head)
        wheel.writestr("tiny-1.0.dist-info/RECORD", "tiny.py,,\n")
    (directory / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')


def make_package(directory: Path, url: str) -> None:
    """Make a package of the name `tiny`, with what the registry says about it at a URL."""
    directory.mkdir(parents=True)
    package = directory / "package"
    package.mkdir()
    (package / "index.js").write_text("module.exports = 1\n")
    (package / "package.json").write_text(json.dumps({"name": "tiny", "version": "1.0.0"}))
    with tarfile.open(directory / "tiny.tgz", "w:gz") as archive:
        archive.add(package, "package")
    version = {"name": "tiny", "version": "1.0.0", "dist": {"tarball": f"{url}/tiny.tgz"}}
    about = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (directory / "tiny").write_text(json.dumps(about))
