"""Finds other paths that show a file because its file system is mounted more than once.

A bind mount shows a directory, with everything in it, at a second path. Whoever may write there writes the
same files, although their names do not show it. This module compares where paths lie in their file systems,
proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from paddock.sandbox.host.mount_line import MountLine, mount_lines, unescaped
from paddock.sandbox.host.mount_tree import MountTree
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


_OVERLAY: Final = b"overlay"
_OF_PROCESSES: Final = b"proc"


def is_of_processes(path: str, table: bytes) -> bool:
    """Return whether a path is in a file system that differs for each process, proc(5).

    The path is absolute and without links; the table comes from `read_table`.
    """
    around = mount_of(path, mounts_in(table))
    return around is not None and around.kind == _OF_PROCESSES


def aliases_of(table: bytes, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the other paths that show these now, or a part of their content, or would if these existed.

    The paths are absolute and without links; the table comes from `read_table`.
    """
    return tuple(dict.fromkeys(alias for path, alias in aliases_in(table, paths) if _is_there(path, alias)))


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
def aliases_in(table: bytes, paths: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return each path with another that shows it according to a table, if something exists there."""
    mounts = mounts_in(table)
    return tuple(dict.fromkeys((path, alias) for path in paths for alias in _aliases(path, mounts)))


def _is_there(path: str, alias: str) -> bool:
    """Return whether something is at an alias, or what is made there would appear at the path."""
    if os.path.lexists(alias):
        return True
    while ROOT not in (path, alias):
        path, alias = parent(path), parent(alias)
        try:
            return os.path.samestat(os.stat(path), os.stat(alias))
        except OSError:
            # Missing or out of reach: the directories above tell.
            continue
    return False


def _aliases(path: str, mounts: tuple[Mount, ...]) -> Iterable[str]:
    around = mount_of(path, mounts)
    locations = {(mount.device, mount.root) for mount in mounts if is_within(mount.point, path)}
    if around is not None:
        locations.add((around.device, _moved(path, around.point, around.root)))
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
    layers, changed = _layers(line.options) if line.kind == _OVERLAY else ((), None)
    return Mount(
        line.number,
        line.device,
        os.fsdecode(line.root),
        os.fsdecode(line.point),
        line.kind,
        b"ro" in (*line.flags.split(b","), *line.options.split(b",")),
        layers,
        changed,
    )


def _layers(options: bytes) -> tuple[tuple[str, ...], str | None]:
    """Return the directories that the options of an overlay name, and the one that takes what is written."""
    layers: list[str] = []
    changed = None
    for option in options.split(b","):
        name, _, value = option.partition(b"=")
        match name:
            case b"lowerdir":
                # A colon or comma in a name has a backslash in front. Empty ones stand for data only.
                named = re.split(r"(?<!\\):+", _name(value))
                layers += (re.sub(r"\\(.)", r"\1", each) for each in named if each)
            case b"lowerdir+" | b"datadir+":
                layers.append(_name(value))
            case b"upperdir":
                changed = _name(value)
                layers.append(changed)
            case _:
                continue
    return tuple(layers), changed


def _name(field: bytes) -> str:
    return os.fsdecode(unescaped(field))
