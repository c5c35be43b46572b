"""What a path leads through, held against the kernel's own answer."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.fs.operation import Canonicalize
from paddock.fs.way import LINKS_LIMIT, NAMES_LIMIT, PATHS_LIMIT, way_of
from tests.unit.fs.places import threads

LINKS = {
    b"/bin": b"usr/bin",
    b"/usr/bin/sh": b"dash",
    b"/opt/tool": b"/work/link",
    b"/work/link": b"../usr/bin/dash",
    b"/opt/round": b"/work/sub/../../usr/./bin",
    b"/circle": b"circle",
}


@pytest.mark.parametrize(
    ("path", "way"),
    [
        (b"/", [b"/"]),
        (b"/..", [b"/"]),
        (b"//usr///bin/dash/", [b"/usr/bin/dash"]),
        (b"/bin/sh", [b"/bin", b"/usr/bin/sh", b"/usr/bin/dash"]),
        (b"/opt/tool", [b"/opt/tool", b"/work/link", b"/work", b"/usr/bin/dash"]),
        (b"/opt/round", [b"/opt/round", b"/work/sub", b"/work", b"/usr/bin"]),
        (b"/opt/none/below", [b"/opt/none/below"]),
        (b"/usr/bin/../bin", [b"/usr/bin"]),
    ],
)
def test_links_and_what_dots_leave_are_on_the_way(path: bytes, way: list[bytes]) -> None:
    assert way_of(path, LINKS.get) == way


@pytest.mark.parametrize(
    ("path", "links"),
    [
        (b"/circle", LINKS),
        (b"/x/" + b"../x/" * NAMES_LIMIT, {}),
        (b"/" + b"".join(b"x%d/../" % number for number in range(PATHS_LIMIT)), {}),
        (b"/0", {b"/%d" % number: b"%d" % (number + 1) for number in range(LINKS_LIMIT + 1)}),
    ],
)
def test_way_without_an_end_is_refused(path: bytes, links: dict[bytes, bytes]) -> None:
    with pytest.raises(OSError, match="too many") as raised:
        way_of(path, links.get)
    assert raised.value.errno == errno.ELOOP


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"..", b".", b""]), max_size=8), st.data())
def test_places_have_neither_links_nor_dots_in_them(names: list[bytes], data: st.DataObject) -> None:
    targets = st.lists(st.sampled_from([b"", b"a", b"b", b"..", b"."]), min_size=1, max_size=3)
    links = data.draw(st.dictionaries(st.sampled_from([b"/a", b"/b", b"/a/c", b"/b/c"]), targets, max_size=3))
    joined = {place: b"/".join(target) or b"/" for place, target in links.items()}
    try:
        way = way_of(b"/" + b"/".join(names), joined.get)
    except OSError:
        return
    for place in way:
        assert place == b"/" or not {b"", b".", b".."} & set(place[1:].split(b"/"))
        above = place.rpartition(b"/")[0]
        while above:
            assert above not in joined
            above = above.rpartition(b"/")[0]
    assert way[-1] not in joined


def real(path: bytes) -> bytes:
    return os.path.realpath(path)


async def test_way_of_real_files_ends_where_the_kernel_says(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "file").symlink_to("../link/target")
    (tmp_path / "gone").symlink_to("real/none")
    async with threads() as files:
        for name in ("link/file", "link/../gone", "real", "link", "gone/x/../y"):
            path = os.fsencode(f"{tmp_path}/real/../{name}")
            found = await files.perform(Canonicalize(path=path, tells_way=True))
            assert found.way is not None
            assert found.way[-1] == found.path == real(path)
            assert bytes(tmp_path / "real") in found.way


@pytest.mark.parametrize(
    ("user", "mode", "is_told"), [("root", 0o600, True), ("owner", 0o400, True), ("another", 0o755, False)]
)
async def test_way_tells_of_a_file_that_its_user_may_change_by_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, mode: int, is_told: bool
) -> None:
    for name in ("single", "linked", "open"):
        (tmp_path / name).touch(mode)
    (tmp_path / "other").hardlink_to(tmp_path / "linked")
    (tmp_path / "others").hardlink_to(tmp_path / "open")
    (tmp_path / "open").chmod(0o664)
    (tmp_path / "link").symlink_to("linked")
    owner = (tmp_path / "linked").stat().st_uid
    users = {"root": 0, "owner": owner, "another": owner + 1}
    monkeypatch.setattr(os, "geteuid", lambda: users[user])
    told = {"single": False, "linked": is_told, "link": is_told, "open": True, "missing": False, ".": False}
    async with threads() as files:
        for name, expected in told.items():
            path = os.fsencode(tmp_path / name)
            found = await files.perform(Canonicalize(path=path, tells_way=True))
            assert found.has_other_names == expected, name
            assert (name == "missing") or (
                await files.perform(Canonicalize(path=path))
            ).has_other_names is None
