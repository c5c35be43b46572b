"""The steps by which a view of the file system is built, as data.

bubblewrap carries them out in order, each on top of those before it.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

READY_DEVICES = "/dev/paddock"
"""As in native/devices.h."""


class Bind(Struct, frozen=True):
    """Show a path of the host, with everything below it, at the same place."""

    path: str
    is_writable: bool
    reason: str

    has_devices: bool = False
    """Whether device files work there."""


class EmptyDirectory(Struct, frozen=True):
    """Cover a path with an empty directory, in which later steps may make mount points."""

    path: str
    mode: int
    reason: str


class UnreadableFile(Struct, frozen=True):
    """Cover a file with an empty one that nobody may open."""

    path: str
    reason: str


class Seal(Struct, frozen=True):
    """Make what is mounted at a path read-only from now on."""

    path: str


class Shortcut(Struct, frozen=True):
    """Make a symbolic link that the host has too."""

    path: str
    target: str


class Devices(Struct, frozen=True):
    """A /dev with the harmless devices only."""

    path: str = "/dev"
    is_ready: bool = False
    """Whether it is made at READY_DEVICES before bubblewrap starts (native/devices.h)."""


class Processes(Struct, frozen=True):
    """A /proc of the sandbox's own processes."""

    path: str = "/proc"


class InitProgram(Struct, frozen=True):
    """Show the sandbox's first program, where there is no /proc to execute its descriptor through."""

    path: str


Mount = Bind | InitProgram | EmptyDirectory | UnreadableFile | Seal | Shortcut | Devices | Processes


class MaskKind(StrEnum):
    """What to do when a mask is removed, besides ending the command."""

    MASK = "mask"
    """Nothing."""

    GUARD = "guard"
    """Put aside what is in its place: others would obey what the command may have made there."""

    PRIVATE = "private"
    """Nothing. The mask covers something of Paddock's own, which nobody moves."""


class Mask(Struct, frozen=True):
    """A path where a mount takes access away, and must stay for as long as the command runs."""

    path: str
    kind: MaskKind = MaskKind.MASK
