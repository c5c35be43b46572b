"""Explains why bubblewrap did not work here, in words that name the way out. Pure.

The kernel's settings come first, because they are certain; then whether this is a container. bubblewrap's own
message is the last resort, and always part of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paddock.model.host import Problem

GUIDE: Final = "docs/how-to/prepare-a-host.md"

NAMESPACES: Final = "user namespaces"

_CONTAINER_MARKS: Final = ("/.dockerenv", "/run/.containerenv")

_SETTINGS: Final = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts them",
        f"give bwrap a profile that allows userns ({GUIDE}), or",
        "0",
    ),
    ("kernel/unprivileged_userns_clone", "0", "they are switched off", "as root", "1"),
    ("user/max_user_namespaces", "0", "none are allowed", "as root", "10000"),
)
"""Setting, the value that forbids, what that means, and the cure."""


def explain_namespaces(
    stderr: str, text: Callable[[str], str | None], exists: Callable[[str], bool]
) -> Problem:
    """Return why namespaces could not be made. The callables are those of `Kernel`."""
    said = last_line(stderr)
    for setting, forbidding, meaning, remedy, cure in _SETTINGS:
        if text(f"/proc/sys/{setting}") == forbidding:
            name = setting.replace("/", ".")
            detail = f"can't be made: {meaning} ({name} = {forbidding}); bubblewrap says: {said}"
            return Problem(NAMESPACES, detail, f"{remedy}: sysctl {name}={cure}")
    if any(exists(mark) for mark in _CONTAINER_MARKS):
        return Problem(
            NAMESPACES,
            f"can't be made in this container; bubblewrap says: {said}",
            f"start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined ({GUIDE})",
        )
    return Problem(
        NAMESPACES,
        f"can't be made, though the kernel's settings allow them; bubblewrap says: {said}",
        f"allow unshare(2), mount(2) and uid_map to this user ({GUIDE})",
    )


def last_line(stderr: str) -> str:
    """Return the last line of a program's output, which says why it failed."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1].removeprefix("bwrap: ") if lines else "nothing"
