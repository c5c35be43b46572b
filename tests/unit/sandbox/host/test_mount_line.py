"""The table of mounts is read as the kernel writes it, whatever names others choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import ProfileRefused
from paddock.sandbox.host.mount_line import MountLine, mount_lines
from paddock.sandbox.host.propagation import read_table

NAMES = st.binary(max_size=20).filter(lambda name: b"\0" not in name).map(lambda name: b"/" + name)


def written(name: bytes) -> bytes:
    """A name as the kernel writes it (mangle in fs/proc_namespace.c)."""
    return b"".join(b"\\%03o" % byte if byte in b" \t\n\\" else bytes((byte,)) for byte in name)


def parts(line: MountLine) -> tuple[bytes, ...]:
    return (line.number, line.parent, line.device, line.root, line.point, line.kind, line.options)


@given(st.lists(st.tuples(NAMES, NAMES), max_size=4))
def test_no_name_looks_like_the_end_of_a_line_or_of_a_field(names: list[tuple[bytes, bytes]]) -> None:
    table = b"".join(
        b"21 20 8:1 %s %s rw,noatime shared:1 master:2 - ext4 /dev/sda rw\n" % (written(root), written(point))
        for root, point in names
    )
    assert [parts(line) for line in mount_lines(table)] == [
        (b"21", b"20", b"8:1", root, point, b"ext4", b"rw") for root, point in names
    ]


@pytest.mark.parametrize("blank", ["\r", "\v", "\f", "\x1c", "\x85", "\xa0", "\u2028"])
def test_names_may_have_what_python_takes_for_the_end_of_a_line(blank: str) -> None:
    table = f"21 20 8:1 / /s{blank}b/volume rw - tmpfs tmpfs rw\n".encode()
    assert [line.point.decode() for line in mount_lines(table)] == [f"/s{blank}b/volume"]


def test_source_may_be_empty_and_options_may_have_blanks() -> None:
    (line,) = mount_lines(b"21 20 8:1 / /m rw - overlay  rw,lowerdir=/a b")
    assert (line.kind, line.options) == (b"overlay", b"rw,lowerdir=/a b")


def test_only_lines_with_a_text_are_read_if_one_is_given() -> None:
    table = b"21 20 8:1 / /a rw - ext4 x rw\n22 20 8:1 / /b rw - ext4 x rw\n"
    assert [line.number for line in mount_lines(table, b" /b")] == [b"22"]


@pytest.mark.parametrize("line", [b"21 20 8:1 / /m", b"21 20 8:1 / /m rw - tmpfs", b"x"])
def test_what_is_no_line_of_the_table_is_refused(line: bytes) -> None:
    with pytest.raises(ProfileRefused, match="the table of mounts has a line that Paddock can't read: b'"):
        list(mount_lines(line))


def test_the_table_of_this_process_has_a_root() -> None:
    assert b"/" in {line.point for line in mount_lines(read_table())}
