"""The steps by which a view of the file system is built, as data.

They are carried out in their order, each on top of those before it.
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
    """Cover a path by an empty directory, in which the steps that follow may make places."""

    path: str
    mode: int
    reason: str


class UnreadableFile(Struct, frozen=True):
    """Cover a file by an empty one that nobody may open."""

    path: str
    reason: str


class Seal(Struct, frozen=True):
    """Let nothing be made or changed any more in what was mounted at a path."""

    path: str


class Shortcut(Struct, frozen=True):
    """Make a symbolic link that the host has, too."""

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
    """Show the sandbox's first program, where no /proc is there to execute its descriptor."""

    path: str


Mount = Bind | InitProgram | EmptyDirectory | UnreadableFile | Seal | Shortcut | Devices | Processes


class MaskKind(StrEnum):
    """What to do if a mask is removed, besides ending the command."""

    MASK = "mask"
    """Nothing."""

    GUARD = "guard"
    """To put aside what is in its place then: others would obey what the command may have made there."""

    PRIVATE = "private"
    """Nothing. It is on something of Paddock's own, which nobody moves."""


class Mask(Struct, frozen=True):
    """A path where a mount takes something away, and has to stay for as long as the command runs."""

    path: str
    kind: MaskKind = MaskKind.MASK
