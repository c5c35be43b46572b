from __future__ import annotations

import pytest

from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.plan.git_metadata import NESTING_LIMIT
from paddock.sandbox.plan.metadata import Protection
from paddock.sandbox.profile.access import AccessTable, Rule
from tests.unit.sandbox.imagined_host import DAMAGED, ImaginedFiles

REPOSITORY = {"/w/.git/HEAD": "ref: refs/heads/main"}


def _protected(
    files: dict[str, str], *more: Rule, roots: tuple[str, ...] = ("/w",), temporary: tuple[str, ...] = ()
) -> set[str]:
    """What git's rules protect, with the project root writable."""
    look = ImaginedFiles({"/w/": "", **files})
    table = AccessTable([*(Rule(root, Access.WRITE, "root") for root in roots), *more])
    rules = Protection(table, look, roots, temporary).rules()
    return {
        rule.path
        for rule in rules
        if rule.path.split("/")[-1] not in (".codex", ".agents", ".aws", ".paddock")
    }


def test_project_without_a_repository_can_become_none_of_either_kind() -> None:
    assert _protected({}) == {"/w/.git", "/w/HEAD"}


def test_project_with_an_empty_git_directory_counts_as_one_without() -> None:
    assert _protected({"/w/.git/": ""}) == {"/w/.git", "/w/HEAD"}


def test_project_with_a_repository_needs_no_more_than_that() -> None:
    assert _protected(REPOSITORY) == {"/w/.git"}


def test_project_with_a_damaged_repository_can_become_none_of_the_other_kind() -> None:
    damaged = {"/w/.git/HEAD": DAMAGED, "/w/.git/index": "src", "/w/src/.git/": ""}
    assert _protected(damaged) == {"/w/.git", "/w/HEAD", "/w/src/.git"}


@pytest.mark.parametrize("above", ["", "/part"])
def test_repository_of_a_project_that_can_only_be_read_is_protected_in_a_grant(above: str) -> None:
    files = {"/p/.git": "gitdir: /store/p", "/store/p/HEAD": "", "/p/part/": ""}
    look = ImaginedFiles({"/store/": "", **files})
    for grants, is_protected in ((("/store",), True), (("/t",), False), ((), False)):
        table = AccessTable([Rule("/", Access.READ, "root"), *(Rule(at, Access.WRITE, at) for at in grants)])
        rules = Protection(table, look, (f"/p{above}",), ("/t",)).rules()
        assert ("/store/p" in {rule.path for rule in rules}) == is_protected


def test_in_a_repository_the_word_head_stays_free() -> None:
    assert _protected({"/.git/": ""}) == {"/w/.git", "/w/refs", "/w/commondir"}


def test_in_a_repository_names_are_held_as_git_does_not_see_them() -> None:
    def kinds(files: dict[str, str]) -> set[tuple[bool, bool]]:
        look = ImaginedFiles({"/w/": "", "/.git/": "", **files})
        rules = Protection(AccessTable([Rule("/w", Access.WRITE, "root")]), look, ("/w",)).rules()
        names = ("/w/refs", "/w/commondir")
        return {(rule.stands_as_socket, rule.stands_as_file) for rule in rules if rule.path in names}

    assert kinds({}) == {(True, True)}
    # A socket goes with the place of `.git`, which there is none of here.
    assert kinds({"/w/.git/": ""}) == {(False, True)}


def test_another_name_is_held_where_the_first_is_taken() -> None:
    assert _protected({"/w/HEAD": "a file"}) == {"/w/.git", "/w/refs", "/w/commondir"}
    assert _protected({"/w/HEAD": "-> nowhere"}) == {"/w/.git", "/w/refs", "/w/commondir"}


def test_bare_repository_is_protected_as_a_whole() -> None:
    assert "/w" in _protected({"/w/HEAD": "", "/w/refs/": "", "/w/objects/": "", "/w/config": ""})


def test_git_of_another_directory_that_the_profile_names_can_not_be_made() -> None:
    other = Rule("/o", Access.WRITE, "/o")
    assert {"/o/.git", "/o/HEAD"} <= _protected({"/o/": "", **REPOSITORY}, other)
    assert _protected({"/o/": "", **REPOSITORY}, other, temporary=("/o",)) == {"/w/.git"}


def test_empty_git_directory_in_a_temporary_directory_is_nobodys() -> None:
    temporary = Rule("/t", Access.WRITE, "tmp")
    for files, is_protected in (({"/t/.git/": ""}, False), ({"/t/.git/config": ""}, True)):
        protected = _protected({"/t/": "", **files, **REPOSITORY}, temporary, temporary=("/t",))
        assert ("/t/.git" in protected) is is_protected
    assert "/t/.git" in _protected({"/t/.git/": ""}, temporary, temporary=("/t",), roots=("/t",))


def test_directory_in_a_project_is_a_part_of_it_even_if_it_is_named() -> None:
    inner = Rule("/w/a/build", Access.WRITE, "/w/a/build")
    for outer in ((), (Rule("/w/a", Access.DENY, "/w/a"),)):
        assert _protected({"/w/a/build/": "", **REPOSITORY}, inner, *outer) == {"/w/.git"}


def test_git_of_a_named_directory_below_a_root_that_can_not_be_written_can_not_be_made() -> None:
    other = Rule("/w/o", Access.WRITE, "/w/o")
    look = ImaginedFiles({"/w/o/": ""})
    rules = Protection(AccessTable([other]), look, ("/w",)).rules()
    assert {rule.path for rule in rules} == {"/w/o/.git", "/w/o/HEAD"}


def test_link_in_another_directory_that_the_profile_names_is_refused() -> None:
    with pytest.raises(ProfileRefused, match="a symlink"):
        _protected({"/o/.git": "-> /w", **REPOSITORY}, Rule("/o", Access.WRITE, "/o"))


def test_repository_of_a_linked_worktree_is_protected() -> None:
    files = {
        "/w/.git": "gitdir: /main/.git/worktrees/w",
        "/main/.git/worktrees/w/commondir": "/main/.git",
        "/main/.git/hooks/": "",
    }
    main = Rule("/main", Access.WRITE, "/main")
    assert {"/w/.git", "/main/.git"} <= _protected(files, main)
    # What can't be written needs no protection.
    assert _protected(files) == {"/w/.git"}


def test_missing_repository_that_a_git_file_names_can_not_be_made() -> None:
    assert _protected({"/w/.git": "gitdir: /w/nowhere"}) == {"/w/.git", "/w/nowhere"}


def test_submodules_are_protected_whether_they_are_there_or_not() -> None:
    files = {
        **REPOSITORY,
        "/w/.git/index": "libs/there libs/old libs/empty libs/gone libs/copied",
        "/w/.git/modules/there/index": "deeper",
        "/w/libs/there/.git": "gitdir: /w/.git/modules/there",
        "/w/libs/there/deeper/.git": "gitdir: /w/.git/modules/there/modules/deeper",
        "/w/libs/old/.git/HEAD": "",
        "/w/libs/empty/": "",
        "/w/libs/copied/source": "",
    }
    assert {path for path in _protected(files) if not path.startswith("/w/.git")} == {
        "/w/libs/there/.git",
        "/w/libs/there/deeper/.git",
        "/w/libs/old/.git",
        "/w/libs/empty",
        "/w/libs/gone/.git",
        "/w/libs/copied/.git",
    }


NESTED = {
    **REPOSITORY,
    "/w/.git/index": "mid",
    "/w/mid/.git": "gitdir: /w/mid/../.git/modules/mid",
    "/w/.git/modules/mid/index": "inner",
    "/w/.git/modules/mid/config": "/w/.git/modules/mid/../../../mid",
}
"""What `git clone --recurse-submodules` makes of a submodule in a submodule."""


def test_submodule_in_a_submodule_is_protected_whether_it_is_there_or_not() -> None:
    inner = {"/w/mid/inner/.git": "gitdir: /w/mid/inner/../../.git/modules/mid/modules/inner"}
    for there in ({}, inner):
        protected = _protected({**NESTED, **there})
        assert {"/w/mid/.git", "/w/mid/inner/.git"} <= protected


def test_submodules_are_protected_to_a_depth_and_refused_below() -> None:
    def nested(depth: int) -> dict[str, str]:
        places = [f"/w{'/s' * number}/.git" for number in range(depth + 1)]
        return {f"{place}/HEAD": "" for place in places} | {f"{place}/index": "s" for place in places[:-1]}

    assert f"/w{'/s' * NESTING_LIMIT}/.git" in _protected(nested(NESTING_LIMIT))
    with pytest.raises(ProfileRefused, match="names submodules of a submodule that is 8 deep"):
        _protected(nested(NESTING_LIMIT + 1))


def test_submodule_whose_way_to_its_repository_can_be_replaced_is_refused() -> None:
    files = {**REPOSITORY, "/w/.git/index": "mid", "/w/x/": "", "/w/.git/modules/mid/": ""}
    files["/w/mid/.git"] = "gitdir: /w/x/../.git/modules/mid"
    with pytest.raises(ProfileRefused, match=r"/w/mid/\.git leads through /w/x/\.\."):
        _protected(files)


def test_repository_of_a_submodule_is_protected_though_its_pointer_can_not_be_written() -> None:
    files = {
        "/r/.git/HEAD": "",
        "/r/.git/index": "lib",
        "/r/lib/.git": "gitdir: /store/lib",
        "/store/lib/HEAD": "",
    }
    rules = (Rule("/r", Access.READ, "root"), Rule("/store", Access.WRITE, "store"))
    look = ImaginedFiles(files)
    protected = {rule.path for rule in Protection(AccessTable(rules), look, ("/r",)).rules()}
    assert "/store/lib" in protected
    part = Rule("/r/part", Access.WRITE, "part")
    look = ImaginedFiles({**files, "/r/part/": ""})
    protected = {rule.path for rule in Protection(AccessTable([*rules, part]), look, ("/r",)).rules()}
    assert "/store/lib" in protected


@pytest.mark.parametrize(
    ("there", "protected"),
    [
        ({"/store/r/HEAD": "", "/r/.git": "-> /store/r"}, {"/r/.git"}),
        ({"/store/r/HEAD": "", "/r/.git": "-> /file", "/file": "gitdir: /store/r"}, {"/store/r"}),
        ({"/r/.git": "-> /store/file", "/store/file": "gitdir: /elsewhere"}, {"/r/.git"}),
    ],
)
def test_what_a_link_in_place_of_the_git_around_leads_to_is_protected(
    there: dict[str, str], protected: set[str]
) -> None:
    store = Rule("/store", Access.WRITE, "store")
    found = _protected({"/r/w/": "", "/store/": "", **there}, store, roots=("/r/w",))
    assert found & {"/r/.git", "/store/r", "/elsewhere"} == protected


def test_submodule_that_the_profile_opens_is_left_open() -> None:
    files = {**REPOSITORY, "/w/.git/index": "sub", "/w/sub/.git": "gitdir: /w/.git/modules/sub"}
    assert _protected(files, Rule("/w/sub/.git", Access.WRITE, "said")) == {"/w/.git"}


def test_other_repositories_are_protected_where_they_are() -> None:
    assert _protected({**REPOSITORY, "/w/.hg/hgrc": ""}) == {"/w/.git", "/w/.hg"}


SUBMODULE = {
    "/r/.git/HEAD": "",
    "/r/.git/index": "w/lib other/lib w/gone",
    "/r/w/lib/.git": "gitdir: /r/.git/modules/lib",
    "/r/.git/modules/lib/index": "deep",
    "/r/w/lib/deep/.git/": "",
}


def test_submodules_of_the_repository_around_a_writable_directory_are_protected() -> None:
    protected = _protected(SUBMODULE, roots=("/r/w",))
    assert {"/r/w/lib/.git", "/r/w/lib/deep/.git", "/r/w/gone/.git"} <= protected
    assert not any(path.startswith("/r/other") for path in protected)


def test_submodules_are_protected_where_only_a_part_of_the_project_can_be_written() -> None:
    look = ImaginedFiles(SUBMODULE)
    for writable in ("/r/w", "/r/w/lib/deep"):
        table = AccessTable([Rule("/r", Access.READ, "root"), Rule(writable, Access.WRITE, "part")])
        paths = {rule.path for rule in Protection(table, look, ("/r",)).rules()}
        assert "/r/w/lib/deep/.git" in paths
        assert ("/r/w/lib/.git" in paths) is (writable == "/r/w")


def test_repository_that_the_one_around_belongs_to_is_protected() -> None:
    files = {"/r/.git": "gitdir: /main/.git/worktrees/r", "/r/w/": "", "/main/.git/worktrees/r/HEAD": ""}
    main = Rule("/main", Access.WRITE, "/main")
    assert "/main/.git/worktrees/r" in _protected(files, main, roots=("/r/w",))


@pytest.mark.parametrize("place", ["/open", "/t", "/w/below"])
def test_repository_that_a_command_or_another_user_can_have_made_around_is_left_alone(place: str) -> None:
    project = f"{place}/project"
    files = {f"{place}/.git/HEAD": "", f"{place}/.git/index": "project/src", f"{project}/src/": ""}
    roots = ("/w",) if place == "/w/below" else (project,)
    files |= REPOSITORY
    writable = Rule(project, Access.WRITE, "said")
    assert f"{project}/src" not in _protected(files, writable, roots=roots, temporary=("/t",))


def test_submodule_behind_a_link_that_can_be_replaced_is_refused() -> None:
    for files in ({"/w/libs": "-> /e", "/e/sub/.git/": ""}, {"/w/libs/sub/.git": "-> /e", "/e/": ""}):
        with pytest.raises(ProfileRefused, match="behind the symlink"):
            _protected({**REPOSITORY, "/w/.git/index": "libs/sub", **files})


def test_submodule_behind_a_link_that_stays_is_protected_where_it_is() -> None:
    files = {**REPOSITORY, "/w/.git/index": "libs/sub", "/w/libs": "-> /e", "/e/sub/.git/": ""}
    assert not any("sub" in path for path in _protected(files, Rule("/w/libs", Access.READ, "kept")))


def test_git_file_in_a_temporary_directory_takes_nothing_away() -> None:
    files = {**REPOSITORY, "/t/.git": "gitdir: /w/src", "/w/src/HEAD": ""}
    assert "/w/src" not in _protected(files, Rule("/t", Access.WRITE, "tmp"), temporary=("/t",))


def test_git_file_that_a_command_may_have_made_protects_repositories_alone() -> None:
    part = Rule("/w/part", Access.WRITE, "part")
    pointer = {**REPOSITORY, "/w/part/.git": "gitdir: /w/src"}
    assert "/w/src" in _protected({**pointer, "/w/src/HEAD": "ref"}, part)
    assert "/w/src" not in _protected({**pointer, "/w/src/": ""}, part)
    behind = {**REPOSITORY, "/w/part/.git": "gitdir: /w/l/src", "/w/l": "-> /w", "/w/src/HEAD": ""}
    assert not {"/w/src", "/w/l/src"} & _protected(behind, part)


ABOVE = Rule("/home/src", Access.WRITE, "above")


def _below_grant(files: dict[str, str], root: str, *more: Rule) -> set[str]:
    """What is protected with a project root that only a wider grant opens."""
    look = ImaginedFiles({"/home/src/": "", f"{root}/": "", **files})
    return {rule.path for rule in Protection(AccessTable([*more]), look, (root,), ("/t",)).rules()}


def test_project_root_in_a_wider_grant_is_protected() -> None:
    protected = _below_grant({}, "/home/src/w", ABOVE)
    names = (".git", "HEAD", ".codex", ".agents", ".aws", ".paddock")
    assert {f"/home/src/w/{name}" for name in names} <= protected


def test_what_the_profile_names_in_a_project_root_in_a_wider_grant_is_open() -> None:
    named = Rule("/home/src/w/.codex", Access.WRITE, "named")
    assert "/home/src/w/.codex" not in _below_grant({}, "/home/src/w", ABOVE, named)


def test_git_finds_no_new_repository_between_a_grant_and_the_project_root_in_it() -> None:
    names = {"/home/src/a/.git", "/home/src/a/HEAD"}
    for more in ((), (Rule("/home/src/a/w", Access.READ, "read"),)):
        assert names <= _below_grant({}, "/home/src/a/w", ABOVE, *more)
    # Git looks no further than the project, if that is sound.
    assert not names & _below_grant({"/home/src/a/w/.git/HEAD": ""}, "/home/src/a/w", ABOVE)
    assert names <= _below_grant({"/home/src/a/w/.git/HEAD": DAMAGED}, "/home/src/a/w", ABOVE)


def test_repository_around_a_project_root_in_a_wider_grant_is_protected() -> None:
    files = {"/home/src/a/.git/HEAD": "", "/home/src/a/.git/index": "lib", "/home/src/a/lib/.git/": ""}
    everything = Rule("/", Access.WRITE, "everything")
    for rule in (ABOVE, everything):
        protected = _below_grant(files, "/home/src/a/b/w", rule)
        assert {"/home/src/a/.git", "/home/src/a/lib/.git"} <= protected
        # Who may write everything may write the owner's own configuration of git.
        assert ("/home/src/a/b/.git" in protected) is (rule is ABOVE)


def test_nothing_is_kept_from_being_made_between_a_temporary_directory_and_a_project_root() -> None:
    files = {"/t/a/.git/HEAD": "", "/t/a/.git/index": "w/src", "/t/a/w/src/": ""}
    protected = _below_grant(files, "/t/a/w", Rule("/t", Access.WRITE, "tmp"))
    assert "/t/a/w/.git" in protected
    assert not {"/t/a/.git", "/t/a/w/src"} & protected


def test_repository_between_two_project_roots_can_not_be_made() -> None:
    roots = ("/w", "/w/group/app")
    assert {"/w/group/.git", "/w/group/app/.git"} <= _protected({"/w/group/app/": ""}, roots=roots)
    # Below a project that is no root itself, commands may make repositories.
    assert "/w/group/.git" not in _protected({"/w/group/app/": ""})


def test_repository_around_a_project_root_in_another_is_protected_and_not_trusted() -> None:
    roots = ("/w", "/w/app/sub")
    assert "/w/app/.git" in _protected({"/w/app/sub/": "", "/w/app/.git/HEAD": "ref: x"}, roots=roots)
    pointer = {"/w/app/sub/": "", "/w/app/.git": "gitdir: /w/src"}
    assert "/w/src" not in _protected({**pointer, "/w/src/": ""}, roots=roots)
    assert "/w/src" in _protected({**pointer, "/w/src/HEAD": "ref: x"}, roots=roots)


def test_submodules_are_protected_wherever_the_settings_say_that_the_working_tree_is() -> None:
    files = {
        **REPOSITORY,
        "/w/.git/index": "sub",
        "/w/.git/config": "/w/tree /elsewhere",
        "/w/tree/sub/f": "",
    }
    assert _protected(files) == {"/w/.git", "/w/sub/.git", "/w/tree/sub/.git"}


def test_working_tree_behind_a_link_of_the_command_is_refused() -> None:
    files = {**REPOSITORY, "/w/.git/index": "sub", "/w/.git/config": "/w/link", "/w/link": "-> /elsewhere"}
    with pytest.raises(ProfileRefused, match=r"behind /w/link"):
        _protected({**files, "/elsewhere/": ""})


SHARED = {
    "/g/a/.hg/requires": "share-safe",
    "/g/b/.jj/repo/store/git_target": "/g/c/.git",
    "/g/c/.git/HEAD": "ref: refs/heads/main",
    "/w/.hg/sharedpath": "/g/a/.hg",
    "/w/.jj/repo": "/g/b/.jj/repo",
}


def test_repositories_that_other_working_copies_name_are_protected_where_they_can_be_written() -> None:
    own = {"/w/.git", "/w/HEAD", "/w/.hg", "/w/.jj"}
    found = _protected(SHARED, Rule("/g", Access.WRITE, "grant"))
    assert found >= {*own, "/g/a/.hg", "/g/b/.jj/repo", "/g/c/.git"}
    assert _protected(SHARED, Rule("/g", Access.READ, "grant")) == own


@pytest.mark.parametrize("named", ["/g/src", "/g/link/.hg", "/g/missing/.hg", "/g"])
def test_what_only_claims_to_be_a_shared_repository_closes_nothing(named: str) -> None:
    files = {"/w/.hg/sharedpath": named, "/g/src/requires": "", "/g/requires": "", "/g/link": "-> /g/a"}
    found = _protected({**files, "/g/a/.hg/requires": ""}, Rule("/g", Access.WRITE, "grant"))
    assert not {path for path in found if path.startswith("/g/") and path.rpartition("/")[0] != "/g"}
    assert named not in found


@pytest.mark.parametrize("there", [{}, {"/w/src/lib/built": ""}])
def test_directory_of_a_sparse_index_is_closed_whether_there_or_not(there: dict[str, str]) -> None:
    files = {**REPOSITORY, "/w/.git/index": "src/lib/ sub", "/w/src/": "", **there}
    assert _protected(files) == {"/w/.git", "/w/src/lib", "/w/sub/.git"}


def test_file_in_place_of_a_directory_of_a_sparse_index_stays() -> None:
    assert _protected({**REPOSITORY, "/w/.git/index": "src/lib/", "/w/src": ""}) == {"/w/.git", "/w/src"}


def test_link_in_place_of_a_directory_of_a_sparse_index_is_refused() -> None:
    files = {**REPOSITORY, "/w/.git/index": "src/lib/", "/w/src": "-> /e", "/e/lib/": ""}
    with pytest.raises(ProfileRefused, match="may hold submodules but behind the symlink /w/src"):
        _protected(files)


def test_grant_in_a_directory_of_a_sparse_index_is_refused() -> None:
    files = {**REPOSITORY, "/w/.git/index": "src/", "/w/src/x/": ""}
    with pytest.raises(ProfileRefused, match=r"write access to /w/src/x would let .* is sparse"):
        _protected(files, Rule("/w/src/x", Access.WRITE, "more"))
    # Nothing can be made there.
    assert _protected(files, Rule("/w/src", Access.DENY, "more")) == {"/w/.git"}
