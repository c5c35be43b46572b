"""A planner tells everything that it looked at, as questions that can be asked again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from paddock import installation
from paddock.errors import ProfileRefused
from paddock.model.host import HostFacts
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.host import probe, question
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.planner import Planner
from paddock.sandbox.profile.enforced import EnforcedProfile, is_enforced
from paddock.sandbox.profile.table import built_in


@pytest.fixture(name="host", scope="module")
def this_host() -> HostFacts:
    return probe.host()


@pytest.fixture(name="project")
def make_project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "below").mkdir(parents=True)
    (tmp_path / "private").mkdir(mode=0o700)
    return tmp_path / "project"


def workspace_profile() -> EnforcedProfile:
    profile = built_in(":workspace")
    assert is_enforced(profile)
    return profile


def planned(host: HostFacts, project: Path) -> LookupRecord:
    lookups = LookupRecord()
    command = Command(["true"], str(project), (str(project),), {})
    Planner(host, project.parent / "private").plan(workspace_profile(), command, lookups=lookups)
    return lookups


def test_all_that_a_plan_rests_on_is_asked_and_stays_the_same(host: HostFacts, project: Path) -> None:
    lookups = planned(host, project)
    assert lookups.is_complete
    assert lookups.still_holds()
    (project / ".git").mkdir()
    assert not lookups.still_holds()


def test_new_name_of_an_own_file_in_the_workspace_is_noticed(
    host: HostFacts, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = project.parent / "module.py"
    own.write_text("")
    os.link(own, project.parent / "other")
    status = own.stat()
    monkeypatch.setattr(installation, "shared_files", lambda: {(status.st_dev, status.st_ino): str(own)})
    lookups = planned(host, project)
    assert lookups.is_complete
    searched: dict[str, Any] = {
        path: answer for asked, path, answer in lookups if asked is question.own_names_in
    }
    assert {str(project), str(project / "below")} <= set(searched)

    def still_finds() -> list[bool]:
        return [question.has_names_in(path, answer) for path, answer in searched.items()]

    assert all(still_finds())
    (project / "below" / "file").write_text("")
    assert all(still_finds())
    os.link(own, project / "below" / "again")
    assert not all(still_finds())
    with pytest.raises(ProfileRefused, match="it is a hard link to it"):
        planned(host, project)
    (project / "below" / "again").unlink()
    assert all(still_finds())
    new = project / "below" / "new"
    new.mkdir()
    assert not all(still_finds())
    assert question.has_names_in(str(new.parent), searched[str(new.parent)], {str(new)})


def test_directory_that_was_at_rest_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = tmp_path.stat()
    stamp = now.st_ino, now.st_ctime_ns
    monkeypatch.setattr(question, "own_names_in", None)
    assert question.has_names_in(str(tmp_path), (stamp, (), ()))


def test_temporary_directory_of_the_launcher_is_asked_about(
    host: HostFacts, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = project.parent / "temporary"
    temporary.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(temporary))
    lookups = planned(host, project)
    assert lookups.is_complete
    assert lookups.still_holds()
    temporary.chmod(0o777)
    assert not lookups.still_holds()
