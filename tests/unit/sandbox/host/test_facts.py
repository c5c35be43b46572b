from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from paddock import own_program
from paddock.errors import ProfileRefused
from paddock.sandbox.host.facts import NAMES_LIMIT, FileFacts, find_tmpdir, surroundings_of, tmpdir_problem
from paddock.sandbox.host.look import Kind, PathFact
from paddock.sandbox.host.placeholder import PLACEHOLDER_MODES, PlaceholderKind
from paddock.sandbox.host.question import CONFIG_LIMIT_BYTES
from paddock.sandbox.profile.path import depth


@pytest.fixture
def new_directory() -> Iterator[Path]:
    """A directory outside of /tmp, where every link may be an earlier command's."""
    with tempfile.TemporaryDirectory(prefix="paddock-", dir="/var/tmp") as name:
        yield Path(name).resolve()


def _at(path: Path) -> PathFact:
    return FileFacts().at(str(path))


def _told(fact: PathFact) -> list[tuple[str, str]]:
    return [(link.path, link.target) for link in fact.links]


def test_files_and_directories_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert _at(tmp_path) == PathFact(Kind.DIRECTORY, str(tmp_path))
    assert _at(tmp_path / "f") == PathFact(Kind.FILE, str(tmp_path / "f"))


def test_first_missing_name_is_told(tmp_path: Path) -> None:
    assert _at(tmp_path / "a" / "b" / "c") == PathFact(
        Kind.MISSING, str(tmp_path / "a" / "b" / "c"), (), str(tmp_path / "a")
    )


def test_links_are_followed_and_told_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "deep" / "f").touch()
    (tmp_path / "one").symlink_to("two/../two")
    (tmp_path / "two").symlink_to(tmp_path / "real")
    fact = _at(tmp_path / "one" / "deep" / "f")
    assert (fact.kind, fact.real) == (Kind.FILE, str(tmp_path / "real" / "deep" / "f"))
    assert _told(fact)[0] == (str(tmp_path / "one"), "two/../two")
    assert (str(tmp_path / "two"), str(tmp_path / "real")) in _told(fact)


def test_link_to_nothing_is_missing_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("nowhere")
    fact = _at(tmp_path / "l")
    assert (fact.kind, fact.first_missing) == (Kind.MISSING, str(tmp_path / "nowhere"))
    assert _told(fact) == [(str(tmp_path / "l"), "nowhere")]


def test_links_in_a_circle_are_missing_and_told(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    fact = _at(tmp_path / "a" / "below")
    assert fact.kind is Kind.MISSING
    assert fact.is_circle


def test_links_that_name_each_other_many_times_take_no_time(tmp_path: Path) -> None:
    """Each of 40 names the next twice: 2 to the 40 steps, did anybody go them."""
    for number in range(40):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}/../l{number + 1}")
    (tmp_path / "l40").mkdir()
    assert _at(tmp_path / "l0").is_circle


def test_path_of_as_many_names_as_are_looked_at_is_like_any_other(tmp_path: Path) -> None:
    deep = f"{tmp_path}/a" + "/a" * (NAMES_LIMIT - depth(f"{tmp_path}/a"))
    assert FileFacts().at(deep).first_missing == f"{tmp_path}/a"


@pytest.mark.parametrize(
    ("content", "directory"),
    [
        ("gitdir: ../main/.git/worktrees/w\n", "w/../main/.git/worktrees/w"),
        ("gitdir: .//link/../w\n", "w/link/../w"),
        ("gitdir: {tmp}/elsewhere", "elsewhere"),
        ("gitdir: w/.git  \n\r\n", "w/w/.git  "),
        ("gitdir: a\nb\t\n", "w/a\nb\t"),
        ("gitdir:  w\x0b", "w/ w\x0b"),
        ("gitdir: \n", None),
        ("gitdir:\n", None),
        ("gitdir:w\n", None),
        (" gitdir: w\n", None),
        ("not a pointer", None),
    ],
)
def test_git_file_points_to_its_directory(content: str, directory: str | None, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text(content.format(tmp=tmp_path))
    expected = None if directory is None else f"{tmp_path}/{directory}"
    assert FileFacts().gitdir(str(tmp_path / "w" / ".git")) == expected


@pytest.mark.parametrize(
    "damage",
    [
        "true",
        "git symbolic-ref HEAD refs/heads/other",
        "printf 'ref:\\t\\r\\n refs/heads/main' > .git/HEAD",
        "printf 'ref:\\vrefs/heads/main\\n' > .git/HEAD",
        "printf 'ref:%260srefs/heads/main\\n' > .git/HEAD",
        "mv .git 'm '; mkdir .git; mv 'm /HEAD' .git; echo '../m ' > .git/commondir",
        "mkdir main; mv .git/objects .git/refs main; echo '../main ' > .git/commondir",
        "mkdir main; mv .git/objects .git/refs main; printf '../main\\nx' > .git/commondir",
        "echo 0123456789012345678901234567890123456789 > .git/HEAD",
        "ln -sf refs/heads/other .git/HEAD",
        "mkdir main; mv .git/objects .git/refs main; echo ../main > .git/commondir",
        ": > .git/HEAD",
        "echo ref: heads/main > .git/HEAD",
        "rm .git/HEAD",
        "rm -r .git/refs",
        "rm -r .git/objects",
        "echo ../main > .git/commondir",
        "ln -sf config .git/HEAD",
        "rm -r .git; mkdir .git",
        "rm -r .git",
    ],
)
def test_repository_is_what_git_takes_for_one(damage: str, tmp_path: Path) -> None:
    script = f"unset GIT_DIR; git init -q . && {damage}; GIT_CEILING_DIRECTORIES=.. git rev-parse --git-dir"
    ended = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, check=False)
    assert FileFacts().is_git_directory(str(tmp_path / ".git")) is (ended.stdout == b".git\n")


def test_repository_with_a_link_in_place_of_a_commondir_is_not_certainly_one(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert FileFacts().is_git_directory(f"{tmp_path}/.git")
    (tmp_path / ".git" / "commondir").symlink_to("HEAD")
    assert not FileFacts().is_git_directory(f"{tmp_path}/.git")


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\r\n\n", " \n", "\t", "\x0b\n", "\f\n"])
@pytest.mark.parametrize("name", ["store", "store ", "a\nb", "a\r\nb", "\tstore", "store\x0b", "a b"])
def test_repository_that_is_named_is_the_one_that_git_finds(name: str, end: str, tmp_path: Path) -> None:
    script = f"unset GIT_DIR; git init -q . && mv .git '{name}' && echo main"
    assert subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, check=False).stdout
    for file, text in ((".git", f"gitdir: {name}{end}"), (f"{name}/commondir", f"../{name}{end}")):
        (tmp_path / file).write_bytes(text.encode())
        words = ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
        facts = FileFacts()
        directory = facts.gitdir(f"{tmp_path}/.git")
        assert directory is not None
        found = facts.at(facts.commondir(directory) or directory)
        if done.returncode:
            assert found.kind is Kind.MISSING
        else:
            assert os.fsencode(f"{found.real}\n") == done.stdout


@pytest.mark.parametrize("text", ["{}\0", "\0{}", "{}" + "/." * 4096])
def test_pointer_that_can_not_be_followed_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: " + text.format("store"))
    (tmp_path / "commondir").write_text(text.format("store"))
    with pytest.raises(ProfileRefused, match=r"\.git names a repository (by|in)"):
        FileFacts().gitdir(f"{tmp_path}/.git")
    with pytest.raises(ProfileRefused, match=r"commondir names a repository (by|in)"):
        FileFacts().commondir(f"{tmp_path}")


def test_long_file_that_is_no_pointer_names_nothing(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("not a pointer" * 4096)
    assert FileFacts().gitdir(f"{tmp_path}/.git") is None


def test_link_in_place_of_a_git_file_is_followed_and_one_of_a_commondir_refused(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("gitdir: store\n")
    (tmp_path / ".git").symlink_to("there/file")
    (tmp_path / "commondir").symlink_to("there/file")
    assert FileFacts().gitdir(f"{tmp_path}/.git") == f"{tmp_path}/store"
    with pytest.raises(ProfileRefused, match="commondir is a symlink; replace it"):
        FileFacts().commondir(str(tmp_path))


def test_pointers_of_mercurial_and_jujutsu_keep_all_that_these_keep(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("../a \r\nb \n\n")
    assert FileFacts().mercurial_share(f"{tmp_path}/file") == f"{tmp_path}/../a \r\nb "
    assert FileFacts().jujutsu_target(f"{tmp_path}/file") == f"{tmp_path}/../a \r\nb \n\n"
    assert FileFacts().jujutsu_target(f"{tmp_path}/missing") is None


def test_settings_that_git_can_not_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[core]\n\tworktree = 'unknown \\escape'\n")
    with pytest.raises(ProfileRefused, match="config has settings that git can't read"):
        FileFacts().worktrees(str(tmp_path))
    (tmp_path / "config").write_text("#" * (CONFIG_LIMIT_BYTES + 1))
    with pytest.raises(ProfileRefused, match="config has more than"):
        FileFacts().worktrees(str(tmp_path))


def _tmpdir(root: Path, name: str) -> str | None:
    return surroundings_of((str(root),), find_tmpdir(name)).tmpdir


def test_relative_or_missing_tmpdir_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "relative").mkdir()
    monkeypatch.chdir(tmp_path)
    assert _tmpdir(tmp_path, "relative") is None
    assert _tmpdir(tmp_path, f"{tmp_path}/missing") is None
    assert _tmpdir(tmp_path, f"{tmp_path}//relative/") == f"{tmp_path}/relative"


@pytest.mark.parametrize(
    ("mode", "is_usable"),
    [(0o700, True), (0o755, True), (0o1777, True), (0o777, False), (0o770, False), (0o775, False)],
)
def test_tmpdir_is_private_or_sticky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_usable: bool
) -> None:
    monkeypatch.setattr(own_program, "is_private_group", lambda *_: False)
    directory = tmp_path / "temporary"
    directory.mkdir()
    directory.chmod(mode)
    assert (_tmpdir(tmp_path, str(directory)) is not None) is is_usable


@pytest.mark.parametrize(("mode", "is_usable"), [(0o775, True), (0o770, True), (0o777, False)])
def test_tmpdir_may_be_open_to_a_group_of_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_usable: bool
) -> None:
    monkeypatch.setattr(own_program, "is_private_group", lambda *_: True)
    directory = tmp_path / "temporary"
    directory.mkdir()
    directory.chmod(mode)
    assert (_tmpdir(tmp_path, str(directory)) is not None) is is_usable


@pytest.mark.parametrize(
    ("name", "members", "others", "is_private"),
    [
        ("ann", [], [], True),
        ("ann", ["ann"], [], True),
        ("staff", [], [], False),
        ("ann", ["bob"], [], False),
        ("ann", [], [("bob", 8, 7)], False),
    ],
)
def test_a_private_group_has_the_name_of_its_user_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    members: list[str],
    others: list[tuple[str, int, int]],
    is_private: bool,
) -> None:
    users = [
        SimpleNamespace(pw_name=user, pw_uid=uid, pw_gid=gid) for user, uid, gid in [("ann", 7, 7), *others]
    ]
    monkeypatch.setattr("grp.getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_mem=members))
    monkeypatch.setattr("pwd.getpwuid", lambda _: users[0])
    monkeypatch.setattr("pwd.getpwall", lambda: users)
    assert own_program.is_private_group(7, 7) is is_private


def test_tmpdir_behind_a_link_counts_only_where_no_command_can_have_made_that(new_directory: Path) -> None:
    (new_directory / "project").mkdir()
    (new_directory / "temporary").mkdir(mode=0o700)
    (new_directory / "open").mkdir()
    (new_directory / "open").chmod(0o1777)
    names = [new_directory / "own", new_directory / "open" / "link", new_directory / "project" / "link"]
    for name in names:
        name.symlink_to(new_directory / "temporary")
    found = [_tmpdir(new_directory / "project", str(name)) for name in names]
    assert found == [f"{new_directory}/own", None, None]


def test_tmpdir_that_is_another_by_now_counts_no_more(tmp_path: Path) -> None:
    directory = tmp_path / "temporary"
    directory.mkdir(mode=0o700)
    found = find_tmpdir(str(directory))
    assert surroundings_of((str(tmp_path),), found).tmpdir == str(directory)
    directory.rename(tmp_path / "old")
    (tmp_path / "other").mkdir(mode=0o700)
    directory.symlink_to("other")
    assert surroundings_of((str(tmp_path),), found).tmpdir is None


def test_reason_why_a_tmpdir_is_not_granted_is_told(
    new_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = new_directory / "own"
    directory.mkdir(mode=0o700)
    found = find_tmpdir(str(directory))
    assert found is not None
    assert tmpdir_problem(found, (str(new_directory),)) is None
    directory.chmod(0o777)
    assert tmpdir_problem(found, ()) == "others can write there (mode 0777)"
    owner = os.geteuid()
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: owner + 1)
        assert tmpdir_problem(found, ()) == f"it belongs to uid {owner}"
    directory.rmdir()
    assert tmpdir_problem(found, ()) == "it is another directory now"


def test_what_paddock_keeps_is_private_before_it_exists(tmp_path: Path) -> None:
    found = surroundings_of((str(tmp_path),), private=(f"{tmp_path}/later",))
    assert found.private == (f"{tmp_path}/later",)


def test_project_root_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileRefused, match="does not exist"):
        surroundings_of((str(tmp_path / "nowhere"),))


def test_socket_that_another_command_holds_is_missing(tmp_path: Path) -> None:
    place = tmp_path / "refs"
    os.mknod(place, stat.S_IFSOCK | 0o600)
    assert _at(place).kind is Kind.FILE
    place.chmod(PLACEHOLDER_MODES[PlaceholderKind.SOCKET])
    fact = _at(place)
    assert (fact.kind, fact.first_missing, fact.placeholder) == (Kind.MISSING, str(place), None)


@pytest.mark.parametrize("kind", [PlaceholderKind.FILE, PlaceholderKind.DIRECTORY])
def test_placeholder_of_another_command_is_missing_and_known_for_what_it_is(
    kind: str, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir() if kind is PlaceholderKind.DIRECTORY else place.touch()
    place.chmod(PLACEHOLDER_MODES[kind])
    fact = _at(place)
    assert (fact.kind, fact.first_missing, fact.placeholder) == (Kind.MISSING, str(place), kind)


def test_what_is_not_certain_is_the_less_trusted_answer(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "hollow").mkdir(mode=0o700)
    facts, missing = FileFacts(), str(tmp_path / "missing")
    assert facts.is_empty(str(tmp_path / "hollow"))
    assert not facts.is_empty(str(tmp_path / "full"))
    assert not facts.is_empty(missing)
    assert not facts.is_open(str(tmp_path / "hollow"))
    assert facts.is_open(missing)
    assert facts.can_grow(missing)
