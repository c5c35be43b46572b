"""Tells whether a path may lead into places that a command can write, under a name that is not theirs.

Text alone does not tell. A file system may ignore case, an overlay shows its layers a second time, and a file
system of another host or program may show anything anywhere. So this compares directories by device and
inode, and takes the worst for granted where these do not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final, Protocol, TypeVar

from paddock.sandbox.host import question
from paddock.sandbox.host.letter_case import is_compared_elsewhere
from paddock.sandbox.host.mount_alias import Mount, aliases_in, mount_of, mounts_in
from paddock.sandbox.host.propagation import TABLE
from paddock.sandbox.profile.path import ROOT, ancestors, is_within, join

T = TypeVar("T")

NAMES_LIMIT: Final = 1024
"""Names to look at for one path: those of an overlay with as many layers as the kernel takes (500)."""

NUMBERED: Final = frozenset((b"9p", b"virtiofs", b"nfs", b"nfs4", b"ceph", b"lustre", b"gpfs", b"beegfs"))
"""Types of file systems that compare names elsewhere, but have one number for a file under all its names."""

SYSTEM_POINTS: Final = frozenset((ROOT, "/etc", "/opt", "/usr"))
"""Where containers and systemd-sysext(8) mount overlays. Their layers lie in another mount namespace, where
no command on this host finds them."""

_OVERLAID_ELSEWHERE: Final = b"fuse.fuse-overlayfs"
"""An overlay that does not tell its layers."""


class Ask(Protocol):
    """Asks a question about a path."""

    def __call__(self, question: Callable[[str], T], path: str, /) -> T:
        """Return the answer."""
        ...


def _answer(question: Callable[[str], T], path: str) -> T:
    return question(path)


class WrittenPlaces:
    """Places that commands can write, with everything in them. They are looked at once, so make a new one for
    each decision.

    All questions about the host go through `ask`.
    """

    def __init__(self, places: Iterable[str], ask: Ask = _answer) -> None:
        self._places: Final = tuple(places)
        self._ask: Final = ask

    def may_hold(self, path: str) -> bool:
        """Return whether a path without links is one of the places, is in one, or may be.

        Callers compare text and bind mounts themselves (`mount_alias`). Raises OSError if the mounts can't be
        read.
        """
        seen: set[str] = set()
        pending = [path, *ancestors(path)]
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > NAMES_LIMIT or self._is_one(name):
                return True
            for layer in self._layers(name):
                if layer is None:
                    return True
                pending += (name for each in self._with_aliases(layer) for name in (each, *ancestors(each)))
        return False

    def _is_one(self, path: str) -> bool:
        if (found := self._ask(question.identity, path)) is not None and found in self._identities:
            return True
        around = mount_of(path, self._mounts)
        if around is None or not is_compared_elsewhere(around):
            return False
        return any(_may_show_the_same(around, other) for other in self._written_elsewhere)

    def _layers(self, path: str) -> Iterable[str | None]:
        """Yield the paths in layers of overlays that a path stands for; None for one that is not known."""
        around = mount_of(path, self._mounts)
        if around is not None:
            inside = _below(_joined(around.root, _below(path, around.point)), ROOT)
            for layer in around.layers:
                if self._is_found(layer, around):
                    yield _joined(layer, inside)
                elif around.point not in SYSTEM_POINTS:
                    yield None
            if around.kind == _OVERLAID_ELSEWHERE and around.point not in SYSTEM_POINTS:
                yield None
        # Whoever writes in an overlay writes in its upper layer.
        for overlay in self._overlays:
            assert overlay.changed is not None
            layer = self._ask(question.real_path, overlay.changed)
            inside = _joined(ROOT, _below(path, layer))
            if is_within(path, layer) and is_within(inside, overlay.root):
                yield _joined(overlay.point, _below(inside, overlay.root))

    def _is_found(self, layer: str, overlay: Mount) -> bool:
        """Return whether a layer of an overlay is where its name leads from here."""
        if not layer.startswith("/") or not self._ask(question.exists, layer):
            return False
        # What is in the overlay itself is no layer of it: the overlay covers that, or it lies elsewhere.
        around = mount_of(self._ask(question.real_path, layer), self._mounts)
        return around is None or around.device != overlay.device

    def _with_aliases(self, path: str) -> Iterable[str]:
        real = self._ask(question.real_path, path)
        yield real
        for _, alias in aliases_in(self._table, (real,)):
            yield alias

    @cached_property
    def _table(self) -> bytes:
        return self._ask(question.mount_table, TABLE)

    @cached_property
    def _mounts(self) -> tuple[Mount, ...]:
        return mounts_in(self._table)

    @cached_property
    def _overlays(self) -> tuple[Mount, ...]:
        """The overlays that can be written, and whose upper layer can be found from here."""
        return tuple(each for each in self._mounts if each.changed is not None and each.changed[:1] == "/")

    @cached_property
    def _real_places(self) -> tuple[str, ...]:
        return tuple(self._ask(question.real_path, place) for place in self._places)

    @cached_property
    def _identities(self) -> frozenset[tuple[int, int]]:
        found = (self._ask(question.identity, place) for place in self._real_places)
        return frozenset(each for each in found if each is not None)

    @cached_property
    def _written_elsewhere(self) -> tuple[Mount, ...]:
        """The mounts in the places, or around them, that compare names elsewhere."""
        around = (mount_of(place, self._mounts) for place in self._real_places)
        inside = (
            mount
            for mount in self._mounts
            if any(is_within(mount.point, place) for place in self._real_places)
        )
        return tuple(
            mount
            for mount in dict.fromkeys((*around, *inside))
            if mount is not None and is_compared_elsewhere(mount) and not mount.is_read_only
        )


def _may_show_the_same(one: Mount, other: Mount) -> bool:
    """Return whether a file may have a name in both mounts, and device and inode do not tell."""
    return (one.device, one.point) != (other.device, other.point) or one.kind not in NUMBERED


def _below(path: str, directory: str) -> str:
    """Return what is behind a directory in a path; nothing if that is all."""
    return path[len(directory.rstrip("/")) :].lstrip("/")


def _joined(directory: str, below: str) -> str:
    return join(directory, below) if below else directory
