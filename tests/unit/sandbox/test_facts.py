from __future__ import annotations

from pathlib import Path

import pytest

from paddock.errors import ProfileRefused
from paddock.sandbox.facts import FileFacts, surroundings_of
from paddock.sandbox.look import Kind, Link, PathFact
from paddock.sandbox.mount import PLACEHOLDER_MODES, PlaceholderKind


def _at(path: Path) -> PathFact:
    return FileFacts().at(str(path))


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
    assert fact.links[0] == Link(str(tmp_path / "one"), "two/../two")
    assert Link(str(tmp_path / "two"), str(tmp_path / "real")) in fact.links


def test_link_to_nothing_is_missing_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "l").symlink_to("nowhere")
    fact = _at(tmp_path / "l")
    assert (fact.kind, fact.first_missing) == (Kind.MISSING, str(tmp_path / "nowhere"))
    assert fact.links == (Link(str(tmp_path / "l"), "nowhere"),)


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ProfileRefused, match="circle"):
        _at(tmp_path / "a")


@pytest.mark.parametrize(
    ("content", "directory"),
    [
        ("gitdir: ../main/.git/worktrees/w\n", "main/.git/worktrees/w"),
        ("gitdir: {tmp}/elsewhere", "elsewhere"),
        ("not a pointer", None),
    ],
)
def test_git_file_points_to_its_directory(content: str, directory: str | None, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text(content.format(tmp=tmp_path))
    expected = None if directory is None else str(tmp_path / directory)
    assert FileFacts().gitdir(str(tmp_path / "w" / ".git")) == expected


def _tmpdir(tmp_path: Path, name: str) -> str | None:
    return surroundings_of((str(tmp_path),), name).tmpdir


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
def test_tmpdir_is_private_or_sticky(tmp_path: Path, mode: int, is_usable: bool) -> None:
    directory = tmp_path / "temporary"
    directory.mkdir()
    directory.chmod(mode)
    assert (_tmpdir(tmp_path, str(directory)) is not None) is is_usable


def test_what_paddock_keeps_is_private_before_it_exists(tmp_path: Path) -> None:
    found = surroundings_of((str(tmp_path),), private=(f"{tmp_path}/later",))
    assert found.private == (f"{tmp_path}/later",)


def test_project_root_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileRefused, match="does not exist"):
        surroundings_of((str(tmp_path / "nowhere"),))


@pytest.mark.parametrize("kind", PlaceholderKind)
def test_placeholder_of_another_command_is_missing_and_known_for_what_it_is(
    kind: PlaceholderKind, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir() if kind is PlaceholderKind.DIRECTORY else place.touch()
    place.chmod(PLACEHOLDER_MODES[kind])
    fact = _at(place)
    assert (fact.kind, fact.first_missing, fact.placeholder) == (Kind.MISSING, str(place), kind)
