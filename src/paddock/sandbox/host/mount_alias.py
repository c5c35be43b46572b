"""Finds other paths that show a file because its file system is mounted more than once.

A bind mount shows a directory, with everything in it, at a second path. Whoever may write there writes the
same files, although their names do not show it. An overlay does the same with the files of its layers. This
module compares where paths lie in their file systems, proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Final

from msgspec import Struct

from paddock.sandbox.host.mount_line import MountLine, mount_lines
from paddock.sandbox.host.mount_tree import MountTree
from paddock.sandbox.host.overlay_layer import Layer, named_layers
from paddock.sandbox.host.propagation import read_table
from paddock.sandbox.profile.path import ROOT, is_within, parent


class Mount(Struct, frozen=True):
    """A mount that paths lead to."""

    number: bytes
    """The id of the mount, by which others name their parent."""
    device: bytes
    root: str
    """The part of its file system that it shows."""
    point: str
    """Where the alias is."""
    kind: bytes
    """The type of its file system."""
    is_read_only: bool = False
    """Whether nobody writes through it."""
    layers: tuple[str, ...] = ()
    """The directories that an overlay consists of, as whoever mounted it has named them. Only those with a
    slash in front can be found from here."""
    changed: str | None = None
    """The one of them that takes what is written."""


STACK_LIMIT: Final = 2
"""Most overlays on each other: FILESYSTEM_MAX_STACK_DEPTH in the kernel's include/linux/fs.h."""

_Location = tuple[bytes, str]
"""A device, and a path in its file system."""
_ShownLayer = tuple[bytes, bytes, str]
"""The device of an overlay, and the location of a layer."""

_OF_PROCESSES: Final = b"proc"


def is_of_processes(path: str, table: bytes) -> bool:
    """Return whether a path is in a file system that differs for each process, proc(5).

    The path is absolute and without links; the table comes from `read_table`.
    """
    around = mount_of(path, mounts_in(table))
    return around is not None and around.kind == _OF_PROCESSES


def aliases_of(table: bytes, paths: tuple[str, ...], layers: tuple[Layer, ...] = ()) -> tuple[str, ...]:
    """Return the other paths that show these now, or a part of their content, or would if these existed.

    The paths are absolute and without links; the table comes from `read_table`, and the layers of overlays
    from `overlay_layer.layers_in`.
    """
    overlays = frozenset(layer.device for layer in layers)
    found = aliases_in(table, paths, layers)
    return tuple(dict.fromkeys(alias for path, alias in found if _is_there(path, alias, overlays)))


def devices_below(directory: str) -> frozenset[int]:
    """Return the devices of the file systems that are mounted in a directory, and of its own."""
    points = [
        directory,
        *(mount.point for mount in mounts_in(read_table()) if is_within(mount.point, directory)),
    ]
    found = set()
    for point in points:
        try:
            found.add(os.stat(point).st_dev)
        except OSError:
            continue
    return frozenset(found)


@lru_cache(maxsize=16)
def aliases_in(
    table: bytes, paths: tuple[str, ...], layers: tuple[Layer, ...] = ()
) -> tuple[tuple[str, str], ...]:
    """Return each path with another that shows it according to a table, if something exists there."""
    mounts = mounts_in(table)
    shown = _shown_layers(layers, mounts)
    return tuple(dict.fromkeys((path, alias) for path in paths for alias in _aliases(path, mounts, shown)))


def _is_there(path: str, alias: str, overlays: frozenset[bytes]) -> bool:
    """Return whether something is at an alias, or what is made there would appear at the path."""
    if os.path.lexists(alias):
        return True
    while ROOT not in (path, alias):
        path, alias = parent(path), parent(alias)
        try:
            found = os.stat(path), os.stat(alias)
            # An overlay has directories of its own, so nothing tells that they are those of a layer.
            return os.path.samestat(*found) or any(_device_of(each) in overlays for each in found)
        except OSError:
            # Missing or out of reach: the directories above tell.
            continue
    return False


def _device_of(found: os.stat_result) -> bytes:
    return b"%d:%d" % (os.major(found.st_dev), os.minor(found.st_dev))


def _aliases(path: str, mounts: tuple[Mount, ...], layers: Sequence[_ShownLayer]) -> Iterable[str]:
    locations = {(mount.device, mount.root) for mount in mounts if is_within(mount.point, path)}
    locations |= _location(path, mounts)
    # A file of an overlay is one of a layer, and other overlays may show that.
    locations = _all_from(locations, partial(_below, layers))
    locations = _all_from(locations, partial(_above, layers))
    for mount in mounts:
        for device, location in locations:
            if mount.device != device:
                continue
            if is_within(location, mount.root):
                alias = _moved(location, mount.root, mount.point)
            elif is_within(mount.root, location):
                # A part of it.
                alias = mount.point
            else:
                continue
            if not is_within(alias, path):
                yield alias


def _location(path: str, mounts: tuple[Mount, ...]) -> set[_Location]:
    """Return where in its file system a path is, if the table tells."""
    around = mount_of(path, mounts)
    return set() if around is None else {(around.device, _moved(path, around.point, around.root))}


def _shown_layers(layers: Iterable[Layer], mounts: tuple[Mount, ...]) -> list[_ShownLayer]:
    # The name of a layer outside of a container may lead to something else inside: no overlay shows itself.
    return [
        (layer.device, device, top)
        for layer in layers
        for device, top in _location(layer.directory, mounts)
        if device != layer.device
    ]


def _above(layers: Iterable[_ShownLayer], at: _Location) -> Iterable[_Location]:
    """Yield where overlays show a location, or a part of it."""
    for overlay, device, top in layers:
        if device == at[0] and is_within(at[1], top):
            yield overlay, _moved(at[1], top, ROOT)
        elif device == at[0] and is_within(top, at[1]):
            yield overlay, ROOT


def _below(layers: Iterable[_ShownLayer], at: _Location) -> Iterable[_Location]:
    """Yield where a location in an overlay may be in its layers."""
    for overlay, device, top in layers:
        if overlay == at[0]:
            yield device, _moved(at[1], ROOT, top)


def _all_from(first: Iterable[_Location], step: Callable[[_Location], Iterable[_Location]]) -> set[_Location]:
    """Return what these lead to through overlays, with these."""
    found = set(first)
    for _ in range(STACK_LIMIT):
        found.update([each for at in found for each in step(at)])
    return found


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """Return the mount that a path is on, of those of `mounts_in`: the innermost."""
    around = (mount for mount in mounts if is_within(path, mount.point))
    return max(around, key=lambda mount: len(mount.point), default=None)


def _moved(path: str, from_: str, to: str) -> str:
    """Turn a path below one directory into the same path below another."""
    return os.path.normpath(f"{to}/{path[len(from_.rstrip('/')) :]}")


@lru_cache(maxsize=1)
def mounts_in(table: bytes) -> tuple[Mount, ...]:
    """Return the mounts to which paths lead, by a table of `read_table`: not those that others cover."""
    lines = tuple(mount_lines(table))
    tree = MountTree(lines)
    return tuple(_mount(line) for line in lines if tree.number_of(line.point) == line.number)


def _mount(line: MountLine) -> Mount:
    layers = named_layers(line)
    return Mount(
        line.number,
        line.device,
        os.fsdecode(line.root),
        os.fsdecode(line.point),
        line.kind,
        b"ro" in (*line.flags.split(b","), *line.options.split(b",")),
        tuple(layer.name for layer in layers),
        next((layer.name for layer in layers if layer.is_upper), None),
    )
