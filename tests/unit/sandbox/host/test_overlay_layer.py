"""The layers of an overlay are found by the names that the kernel tells, as far as these lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.sandbox.host.overlay_layer import Layer, layers_in
from paddock.sandbox.host.question import real_directories


def table(options: str, kind: str = "overlay") -> bytes:
    return f"20 1 8:1 / / rw - ext4 x rw\n21 20 0:40 / /m rw - {kind} none rw,{options}\n".encode()


def as_written(names: str) -> tuple[str, ...]:
    return tuple(names.split("\0"))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("lowerdir=/a", {"/a"}),
        ("lowerdir=/a:/b,upperdir=/c,workdir=/d", {"/a", "/b", "/c"}),
        # What is after an empty name holds only data.
        ("lowerdir=/a::/b", {"/a", "/b"}),
        # Each in an option of its own, since Linux 6.8.
        ("lowerdir+=/a:b,lowerdir+=/c,datadir+=/d", {"/a:b", "/c", "/d"}),
        # The kernel escapes blanks, commas and backslashes; whoever mounted it, colons and backslashes.
        (r"lowerdir=/a\040b:/c\054d", {"/a b", "/c,d"}),
        (r"lowerdir=/a\134:b:/c", {"/a:b", r"/a\:b", "/c"}),
        (r"upperdir=/a\134\134b", {r"/a\\b", r"/a\b"}),
        # Names lead from a directory that nobody knows, or there are none.
        ("lowerdir=l/AB:l/CD,upperdir=e/diff", set()),
        ("volatile", set()),
    ],
)
def test_layers_are_named_in_the_options_of_an_overlay(options: str, names: set[str]) -> None:
    found = layers_in(table(options), as_written)
    assert {(layer.device, layer.directory) for layer in found} == {(b"0:40", name) for name in names}


def test_other_file_systems_have_no_layers() -> None:
    def refuse(_: str) -> tuple[str, ...]:
        raise AssertionError("nothing is to be asked")

    assert layers_in(table("lowerdir=/a", "ext4"), refuse) == ()


def test_layer_that_is_not_here_is_left_out_and_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to("here")
    found = layers_in(table(f"lowerdir={tmp_path}/link:{tmp_path}/missing/layer"), real_directories)
    assert found == (Layer(b"0:40", f"{tmp_path.resolve()}/here"),)
