"""Reads the lines of the kernel's table of mounts, proc_pid_mountinfo(5), for all that asks about mounts.

The kernel escapes blanks, tabs, newlines and backslashes in names, and little else. So a newline ends a line
and a blank ends a field, but nothing else that Python takes for one of them does: whoever may rename a
directory above a mount chooses that. Pure, and imports next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class MountLine:
    """One line, in bytes. Names are as they are in the file system, without escapes."""

    __slots__ = ("device", "flags", "kind", "number", "options", "parent", "point", "root")

    def __init__(self, line: bytes) -> None:
        """Raises ValueError if this is no line of the table."""
        self.number, self.parent, self.device, root, point, rest = line.split(b" ", 5)
        # A file system may write its own options without escapes, as overlays do in Linux 6.5.
        of_mount, _, of_file_system = rest.partition(b" - ")
        self.flags = of_mount.partition(b" ")[0]
        self.kind, _, self.options = of_file_system.split(b" ", 2)
        self.root, self.point = unescaped(root), unescaped(point)


def mount_lines(table: bytes, containing: bytes = b"") -> Iterator[MountLine]:
    """Yield the lines of a table of `propagation.read_table`, in its order, or only those that have a text in
    them. Raises ProfileRefused for what is no line.
    """
    for line in table.split(b"\n"):
        if line and containing in line:
            try:
                yield MountLine(line)
            except ValueError as error:
                from paddock.errors import ProfileRefused

                problem = f"has a line that Paddock can't read: {line!r}"
                raise ProfileRefused("the table of mounts", problem, "unmount what it is about") from error


def unescaped(field: bytes) -> bytes:
    """Return a field without the kernel's escapes: a backslash and three octal digits."""
    if b"\\" not in field:
        return field
    import re

    return re.sub(rb"\\([0-3][0-7]{2})", lambda match: bytes((int(match[1], 8),)), field)
