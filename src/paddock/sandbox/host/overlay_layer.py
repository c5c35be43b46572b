"""Finds the directories that an overlay shows (overlayfs in the kernel's documentation).

An overlay shows the files of its layers, and writes to the upper one. The kernel tells the names of the
layers as whoever mounted the overlay wrote them, for the namespace where that was. This finds those that lead
to something here, too. It can't know where a relative name leads, or one from outside of a container.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from msgspec import Struct

from paddock.sandbox.host.mount_line import MountLine, mount_lines, unescaped

OVERLAYS: Final = frozenset((b"overlay", b"overlayfs"))
"""Types of file systems that name their layers so. In containers without root, FUSE may show layers too, and
the table does not name them."""

_LISTS: Final = frozenset((b"lowerdir",))
_UPPER: Final = b"upperdir"
_SINGLE: Final = frozenset((b"lowerdir+", b"datadir+", _UPPER))
_SEPARATE: Final = rb"(?:[^:\\]|\\.)+"
_ESCAPED: Final = rb"\\(.)"

Look = Callable[[str], tuple[str, ...]]
"""`question.real_directories`, or one that asks it and records the answer."""


class NamedLayer(Struct, frozen=True):
    """A layer as whoever mounted an overlay has named it. Only an absolute path can be found from here."""

    name: str
    is_upper: bool
    """Whether it takes what is written."""


class Layer(Struct, frozen=True):
    """A directory that overlays show."""

    device: bytes
    """The device of the file system that shows it, as in the table."""
    directory: str
    """Where it is, without links."""


def layers_in(table: bytes, look: Look) -> tuple[Layer, ...]:
    """Return the layers that are found here, by a table of `read_table`. Most hosts have none."""
    named = _named_in(table)
    if not named:
        return ()
    # One question for all: a container may have a hundred layers.
    found = look("\0".join(name for _, name in named))
    return tuple(
        dict.fromkeys(
            Layer(device, directory) for (device, _), directory in zip(named, found, strict=True) if directory
        )
    )


@lru_cache(maxsize=1)
def _named_in(table: bytes) -> tuple[tuple[bytes, str], ...]:
    """Return each overlay's device with the absolute name of a layer."""
    return tuple(
        dict.fromkeys(
            (line.device, layer.name)
            for line in mount_lines(table)
            for layer in named_layers(line)
            if layer.name.startswith("/")
        )
    )


def named_layers(line: MountLine) -> tuple[NamedLayer, ...]:
    """Return the layers of an overlay as its line in the table names them; none for other file systems."""
    if line.kind not in OVERLAYS:
        return ()
    return tuple(dict.fromkeys(_named(line.options)))


def _named(options: bytes) -> Iterator[NamedLayer]:
    for option in options.split(b","):
        key, _, value = option.partition(b"=")
        value = unescaped(value)
        if key in _SINGLE:
            written = [value]
        elif key in _LISTS:
            written = re.findall(_SEPARATE, value, re.DOTALL)
        else:
            continue
        for name in written:
            # Whether backslashes were escapes depends on the call by which the overlay was mounted.
            for each in (name, re.sub(_ESCAPED, rb"\1", name, flags=re.DOTALL)):
                yield NamedLayer(os.fsdecode(each), key == _UPPER)
