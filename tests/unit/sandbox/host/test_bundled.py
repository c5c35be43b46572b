"""The bubblewrap that the package brings: verified, and executed through its descriptor."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from paddock import own_program
from paddock.errors import SandboxUnavailable
from paddock.sandbox.host import candidate
from paddock.sandbox.host.probe import Probe
from tests.unit.sandbox.fake_kernel import FakeKernel, make_program


def with_digest(program: Path) -> Path:
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    program.with_name("bwrap.sha256").write_text(f"{digest}  bwrap\n")
    return program


def _probe(program: Path) -> Probe:
    return Probe(FakeKernel(), bundled=str(program))


@pytest.fixture(name="program")
def bundled_program(tmp_path: Path) -> Path:
    return make_program(tmp_path / "native" / "bwrap")


def test_it_is_taken_when_path_has_none(program: Path) -> None:
    found = _probe(with_digest(program)).host("/nowhere", "/work").bwrap
    assert found is not None
    assert (found.is_bundled, found.path) == (True, str(program))
    assert found.fd is not None
    os.close(found.fd)


def test_one_of_the_system_is_preferred_but_none_that_a_command_may_have_made(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_program(tmp_path / "bin" / "bwrap")
    on_path = _probe(with_digest(program)).host(str(other.parent), "/work").bwrap
    assert on_path is not None
    assert (on_path.is_bundled, on_path.path) == (True, str(program))
    assert on_path.fd is not None
    os.close(on_path.fd)
    monkeypatch.setattr(own_program, "SYSTEM_PATH", str(other.parent))
    of_the_system = _probe(program).host(str(other.parent), "/work").bwrap
    assert of_the_system is not None
    assert (of_the_system.is_bundled, of_the_system.path) == (False, str(other))


def test_one_that_was_changed_is_refused_and_the_reason_told(program: Path) -> None:
    with_digest(program)
    program.write_text("#!/bin/sh\necho changed\n")
    facts = _probe(program).host("/nowhere", "/work")
    assert facts.bwrap is None
    [problem] = facts.problems
    assert "is not the one that was built" in problem.detail
    assert problem.remedy == "install paddock again"


def test_a_missing_digest_is_forgiven_only_where_paddock_is_developed(program: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"has no digest in bwrap\.sha256"):
        candidate.bundled(str(program), is_development=False)
    found = candidate.bundled(str(program), is_development=True)
    assert found is not None
    os.close(found.fd)


def test_an_empty_digest_is_a_missing_one(program: Path) -> None:
    program.with_name("bwrap.sha256").write_text("")
    with pytest.raises(SandboxUnavailable, match="has no digest"):
        candidate.bundled(str(program), is_development=False)


def test_no_descriptor_is_left_open_by_one_that_is_refused(program: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(SandboxUnavailable):
        candidate.bundled(str(program), is_development=False)
    assert os.listdir("/proc/self/fd") == before


def test_what_is_executed_is_the_file_that_was_verified_whatever_has_its_name_now(tmp_path: Path) -> None:
    true = shutil.which("true")
    assert true is not None
    shutil.copy(true, tmp_path / "bwrap")
    found = candidate.bundled(str(with_digest(tmp_path / "bwrap")))
    assert found is not None
    try:
        (tmp_path / "bwrap").unlink()
        make_program(tmp_path / "bwrap", "#!/bin/sh\nexit 9\n")
        done = subprocess.run([found.command], pass_fds=[found.fd], check=False)
        assert done.returncode == 0
    finally:
        os.close(found.fd)


@pytest.mark.parametrize(("name", "is_forgiven"), [("paddock_exec", True), ("paddock", False)])
def test_a_missing_digest_is_forgiven_to_a_source_tree_of_ours_alone(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_forgiven: bool
) -> None:
    record = tmp_path / "site" / f"{name}-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
    (record / "direct_url.json").write_text('{"url": "file:///src", "dir_info": {"editable": true}}')
    monkeypatch.setattr("sys.path", [str(record.parent)])
    assert (_probe(program).host("/nowhere", "/work").bwrap is not None) == is_forgiven
