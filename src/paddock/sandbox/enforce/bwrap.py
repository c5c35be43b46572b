"""Translates a plan into options of bubblewrap (bwrap(1)).

Pure. The options that build the view are separate from the few that refer to descriptors: there can be
thousands of the former, so they travel in a file (`--args`), and the numbers of the latter are known only at
the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from msgspec import Struct

from paddock.errors import ProfileRefused, SandboxUnavailable
from paddock.model.host import Bubblewrap, BwrapCapabilities
from paddock.model.profile import Access
from paddock.sandbox.plan.mount import (
    READY_DEVICES,
    Bind,
    Devices,
    EmptyDirectory,
    InitProgram,
    Mount,
    Processes,
    Seal,
    Shortcut,
    UnreadableFile,
)
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.profile.path import ROOT, is_within

ARGUMENT_LIMIT: Final = 9000
"""bubblewrap accepts no more, from a file or not (MAX_ARGS in its source)."""

RESERVED_ARGUMENTS: Final = 64
"""Arguments reserved for options that are not about the view: fewer than 30, and room to grow."""


class HostFiles(Struct, frozen=True):
    """Files of the host that are mounted in a view."""

    init: str
    """The first program."""
    unreadable: str
    """An empty file that nobody may open."""


def options(
    plan: Plan, capabilities: BwrapCapabilities, files: HostFiles, *, has_own_session: bool = True
) -> list[str]:
    """Return the options that make bubblewrap carry out the plan, except for what needs descriptors.

    bubblewrap does not die with its parent: killed while its own child waits for it to map the user, it would
    leave that child behind. Instead paddock-init dies with the launcher, and bubblewrap ends after it.
    Without `has_own_session` the command stays in its launcher's session and keeps its terminal. Raises
    ProfileRefused for more options than bubblewrap accepts.
    """
    view = [word for mount in plan.mounts for word in _words(mount, files)]
    if len(view) > ARGUMENT_LIMIT - RESERVED_ARGUMENTS:
        raise ProfileRefused(
            f"the view of {len(plan.mounts)} mounts",
            "is more than bubblewrap can make",
            "let deny patterns match fewer files, or deny the directories they are in",
        )
    return [
        "--as-pid-1",
        *(["--new-session"] if has_own_session else []),
        # Explicit, because bubblewrap makes no user namespace for root by itself.
        "--unshare-user",
        *(["--disable-userns"] if capabilities.disable_userns else []),
        "--unshare-pid",
        "--unshare-ipc",
        *(["--unshare-net"] if plan.has_own_network else []),
        *view,
        "--cap-drop",
        "ALL",
        "--chdir",
        plan.cwd,
    ]


def refuse_own_program(bubblewrap: Bubblewrap, plan: Plan) -> None:
    """Refuse a program that lies where the profile lets commands write: one may have made it."""
    if bubblewrap.is_bundled:
        return
    for rule in plan.rules:
        # A command that may write everything learns nothing from a path.
        if rule.access is Access.WRITE and rule.path != ROOT and is_within(bubblewrap.path, rule.path):
            raise SandboxUnavailable(
                f"{bubblewrap.path} lies in {rule.path}, which the profile makes writable ({rule.origin})",
                "install bubblewrap in a directory of the system, or grant another directory",
            )


def _words(mount: Mount, files: HostFiles) -> Sequence[str]:
    match mount:
        case Bind(path=path, is_writable=is_writable, has_devices=has_devices):
            if has_devices:
                return ("--dev-bind", path, path)
            return ("--bind" if is_writable else "--ro-bind", path, path)
        case EmptyDirectory(path=path, mode=mode):
            return ("--perms", f"{mode:04o}", "--tmpfs", path)
        case UnreadableFile(path=path):
            return ("--ro-bind", files.unreadable, path)
        case InitProgram(path=path):
            return ("--ro-bind", files.init, path)
        case Seal(path=path):
            return ("--remount-ro", path)
        case Shortcut(path=path, target=target):
            return ("--symlink", target, path)
        case Devices(path=path, is_ready=is_ready):
            if not is_ready:
                return ("--dev", path)
            return ("--dev-bind", READY_DEVICES, path, "--perms", "1777", "--tmpfs", f"{path}/shm")
        case Processes(path=path):
            return ("--proc", path)
        case _:
            assert_never(mount)
