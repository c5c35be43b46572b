"""What may be named under a cap: only what a command under it could see."""

from __future__ import annotations

import pytest

from paddock.errors import ProfileExceeded
from paddock.model.profile import (
    Access,
    AccessEntry,
    ExactPath,
    GlobPath,
    ManagedProfile,
    NamedPath,
    ProjectRoots,
    RestrictedFileSystem,
)
from paddock.sandbox.plan.cap import Cap, Ceiling
from paddock.sandbox.plan.plan import PlanInput, reach_of
from paddock.sandbox.profile.access import Surroundings
from paddock.sandbox.profile.enforced import entries_of
from tests.unit.sandbox.imagined_host import CIRCLE, ImaginedFiles

FILES = {"/w/a/": "", "/w/l": CIRCLE, "/w/out": "-> /secret", "/secret/x/": ""}


def managed(*entries: AccessEntry) -> ManagedProfile:
    return ManagedProfile(file_system=RestrictedFileSystem(entries=entries))


@pytest.fixture(name="ceiling", scope="module")
def ceiling_of_a_workspace() -> Ceiling:
    """Nothing but /w may be read."""
    profile = managed(AccessEntry(path=ExactPath(path="/w"), access=Access.READ))
    given = PlanInput(Surroundings(project_roots=("/w",)), "/w")
    return Ceiling(Cap("most", profile, ("/w",)), *reach_of(profile, given, ImaginedFiles(FILES)))


@pytest.mark.parametrize("path", ["/w", "/w/a", "/w/missing/below", "/w/a/../a", "/w/./a", "/w/l/x"])
def test_what_a_command_could_see_may_be_named(ceiling: Ceiling, path: str) -> None:
    ceiling.admit_names([path])


@pytest.mark.parametrize("path", ["/secret", "/w/../secret/x", "/w/out/x", "/missing"])
def test_no_name_elsewhere_may_be_named_there_or_not(ceiling: Ceiling, path: str) -> None:
    with pytest.raises(ProfileExceeded, match="where the most is none"):
        ceiling.admit_names([path])


def test_denials_of_what_can_not_be_seen_are_left_out(ceiling: Ceiling) -> None:
    seen, unseen = (
        [
            AccessEntry(path=ExactPath(path=f"{place}/key"), access=Access.DENY),
            AccessEntry(path=GlobPath(pattern=f"{place}/**/*.pem"), access=Access.DENY),
        ]
        for place in ("/w", "/secret")
    )
    others = [
        AccessEntry(path=GlobPath(pattern="*.env"), access=Access.DENY),
        AccessEntry(path=NamedPath(value=ProjectRoots(subpath="key")), access=Access.DENY),
    ]
    left = ceiling.visible_part(managed(*seen, *unseen, *others))
    assert list(entries_of(left)) == [*seen, *others]
