"""A file is found under every path that a mount shows it at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.sandbox.host import mount_alias
from paddock.sandbox.host.mount_alias import aliases_of, devices_below
from paddock.sandbox.host.mount_line import mount_lines
from paddock.sandbox.host.mount_tree import MountTree
from paddock.sandbox.host.overlay_layer import Layer
from paddock.sandbox.host.propagation import read_table


@pytest.fixture(autouse=True)
def everything_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.lexists", lambda _: True)


def mounted(monkeypatch: pytest.MonkeyPatch, *lines: tuple[str, str, str]) -> bytes:
    """Let the table have these devices, roots and mount points, mounted in this order, and return it."""
    table = b""
    for number, (device, root, point) in enumerate(lines, start=20):
        # The root's parent has number 1, which is not listed.
        parent = int(MountTree(mount_lines(table)).number_of(point.encode()) or 1)
        table += f"{number} {parent} {device} {root} {point} rw - ext4 /dev/x rw\n".encode()
    monkeypatch.setattr(mount_alias, "read_table", lambda: table)
    return table


ROOT = ("8:1", "/", "/")


@pytest.mark.parametrize(
    ("lines", "path", "aliases"),
    [
        ([ROOT], "/opt/p", ()),
        ([ROOT, ("8:1", "/opt/p", "/work/sub")], "/opt/p", ("/work/sub",)),
        ([ROOT, ("8:1", "/opt", "/work/sub")], "/opt/p", ("/work/sub/p",)),
        ([ROOT, ("8:1", "/opt/p/lib", "/work/sub")], "/opt/p", ("/work/sub",)),
        ([ROOT, ("8:1", "/opt/pq", "/work/sub")], "/opt/p", ()),
        ([ROOT, ("8:2", "/opt/p", "/work/sub")], "/opt/p", ()),
        ([ROOT, ("8:1", "/", "/host")], "/opt/p", ("/host/opt/p",)),
        ([ROOT, ("8:1", "/", "/host")], "/host/opt/p", ("/opt/p",)),
        ([ROOT, ("8:2", "/", "/opt"), ("8:2", "/p", "/work/sub")], "/opt/p", ("/work/sub",)),
        ([ROOT, ("8:2", "/a", "/opt"), ("8:2", "/", "/mnt")], "/opt/p", ("/mnt/a/p",)),
        ([ROOT, ("8:1", "/data", "/opt"), ("8:2", "/", "/opt"), ("8:2", "/", "/mnt")], "/opt/p", ("/mnt/p",)),
        ([ROOT, ("8:1", "/opt/p/lib", "/opt/p/copy")], "/opt/p", ()),
        ([ROOT, ("8:2", "/", "/opt/p/lib"), ("8:2", "/", "/work/sub")], "/opt/p", ("/work/sub",)),
        ([ROOT, ("8:2", "/", "/opt/p/lib"), ("8:2", "/x", "/work/sub")], "/opt/p", ("/work/sub",)),
        ([ROOT, ("8:1", r"/opt/p", r"/work/a\040b")], "/opt/p", ("/work/a b",)),
        # An outer mount is newer than an inner one, which nobody sees any more.
        ([ROOT, ("8:2", "/", "/opt/p"), ("8:3", "/", "/opt"), ("8:3", "/", "/mnt")], "/opt/p", ("/mnt/p",)),
        ([ROOT, ("8:2", "/", "/opt/p"), ("8:2", "/", "/mnt"), ("8:3", "/", "/opt")], "/opt/p", ()),
        ([ROOT, ("8:1", "/opt/p", "/mnt/p"), ("8:3", "/", "/mnt")], "/opt/p", ()),
    ],
)
def test_every_mount_that_shows_a_path_or_a_part_of_it_counts(
    monkeypatch: pytest.MonkeyPatch,
    lines: list[tuple[str, str, str]],
    path: str,
    aliases: tuple[str, ...],
) -> None:
    assert aliases_of(mounted(monkeypatch, *lines), (path,)) == aliases


OVERLAY, OVERLAY_ROOT = ("0:40", "/", "/m"), ("0:40", "/", "/")


@pytest.mark.parametrize(
    ("lines", "layers", "path", "aliases"),
    [
        ([ROOT, OVERLAY], {"/opt": "0:40"}, "/opt/p", ("/m/p",)),
        ([ROOT, OVERLAY], {"/opt/p": "0:40"}, "/opt/p", ("/m",)),
        ([ROOT, OVERLAY], {"/opt/p/lib": "0:40"}, "/opt/p", ("/m",)),
        ([ROOT, OVERLAY], {"/opt/pq": "0:40"}, "/opt/p", ()),
        ([ROOT, OVERLAY], {"/opt": "0:41"}, "/opt/p", ()),
        # A part of the overlay is mounted elsewhere.
        ([ROOT, OVERLAY, ("0:40", "/p", "/w")], {"/opt": "0:40"}, "/opt/p", ("/m/p", "/w")),
        ([ROOT, OVERLAY, ("0:40", "/q", "/w")], {"/opt": "0:40"}, "/opt/p", ("/m/p",)),
        # The layer is on a mount that shows a part of the file system.
        ([ROOT, ("8:1", "/opt", "/x"), OVERLAY], {"/x/p": "0:40"}, "/opt/p", ("/x/p", "/m")),
        # The path is on the overlay, and in each layer that has it.
        ([ROOT, OVERLAY], {"/l": "0:40", "/u": "0:40"}, "/m/p", ("/l/p", "/u/p")),
        # What another layer has at this place is another file.
        ([ROOT, OVERLAY], {"/l": "0:40", "/u": "0:40"}, "/l/p", ("/m/p",)),
        # What a name leads to in a container is not the layer outside.
        ([OVERLAY_ROOT], {"/l": "0:40"}, "/l/p", ()),
        (
            [OVERLAY_ROOT, ("0:41", "/", "/m")],
            {"/l": "0:41", "/m/l": "0:40"},
            "/q/p",
            ("/m/l/q/p", "/l/l/q/p"),
        ),
        # An overlay of an overlay, and two of one layer.
        ([ROOT, OVERLAY, ("0:41", "/", "/n")], {"/l": "0:40", "/m/a": "0:41"}, "/l/a/p", ("/m/a/p", "/n/p")),
        ([ROOT, OVERLAY, ("0:41", "/", "/n")], {"/l": "0:40", "/l/": "0:41"}, "/m/p", ("/l/p", "/n/p")),
    ],
)
def test_overlay_shows_what_its_layers_hold(
    monkeypatch: pytest.MonkeyPatch,
    lines: list[tuple[str, str, str]],
    layers: dict[str, str],
    path: str,
    aliases: tuple[str, ...],
) -> None:
    found = tuple(Layer(device.encode(), directory.rstrip("/")) for directory, device in layers.items())
    assert set(aliases_of(mounted(monkeypatch, *lines), (path,), found)) == set(aliases)


def test_missing_path_has_an_alias_in_an_overlay_that_would_show_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    for name in ("home", "overlay"):
        (tmp_path / name).mkdir()
    device = os.stat(tmp_path).st_dev
    overlay = f"{os.major(device)}:{os.minor(device)}"
    table = f"1 0 8:1 / / rw - ext4 x rw\n2 1 {overlay} / {tmp_path}/overlay rw - overlay x rw\n".encode()
    missing = (f"{tmp_path}/home/.config/rules",)
    assert aliases_of(table, missing) == ()
    layers = (Layer(overlay.encode(), f"{tmp_path}/home"),)
    assert aliases_of(table, missing, layers) == (f"{tmp_path}/overlay/.config/rules",)


def test_the_table_of_this_process_can_be_read() -> None:
    assert "/" not in aliases_of(read_table(), ("/usr",))


def test_mount_that_can_not_be_reached_has_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, ROOT, ("8:2", "/", "/nowhere/at/all"))
    assert devices_below("/nowhere") == frozenset()
    assert devices_below("/") == {os.stat("/").st_dev}


def test_missing_path_has_aliases_where_it_could_be_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    (tmp_path / "home").mkdir()
    (tmp_path / "other").mkdir()
    shown = f"1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 {tmp_path}/home {tmp_path}/{{}} rw - ext4 x rw\n"
    missing = f"{tmp_path}/home/.config/rules"
    assert aliases_of(shown.format("other").encode(), (missing,)) == ()
    (tmp_path / "other").rmdir()
    (tmp_path / "other").symlink_to("home")
    assert aliases_of(shown.format("other").encode(), (missing,)) == (f"{tmp_path}/other/.config/rules",)
