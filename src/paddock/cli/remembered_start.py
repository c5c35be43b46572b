"""Starts a command of `paddock sandbox` without planning, where a plan would lead to the same sandbox.

Everything that is unusual is left to the ordinary way: this returns None before it has changed anything, and
whatever is wrong is found and told there.
"""

from __future__ import annotations

import os
from contextlib import suppress

from paddock import installation
from paddock.cli.confined import run_confined
from paddock.errors import PaddockError
from paddock.model.secret_name import without_secrets
from paddock.sandbox import remembered
from paddock.sandbox.enforce.janitor import Janitor
from paddock.transport import runtime_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Final

    from paddock.sandbox.enforce.confined import Confined
    from paddock.sandbox.enforce.held_script import Groundwork

SIZE_LIMIT_BYTES: Final = 1 << 20
"""As `profile.source` has it, which refuses a larger file."""

_NEED_MORE: Final = (
    *("allow_host", "allow_group", "deny_host", "allow_local", "managed_network"),
    *("use_legacy_landlock", "trace", "explain"),
)
"""Options for which a thread serves the command or watches it, or nothing is run."""


def is_possible(arguments: argparse.Namespace) -> bool:
    """Return whether a command line asks for nothing that needs more than a plan."""
    return not any(getattr(arguments, name) for name in _NEED_MORE)


class Start:
    """What a command line asks for, and where.

    A profile is read once: it may be in a pipe, or in a file that somebody is about to change.
    """

    __slots__ = ("profile", "scene")

    def __init__(self, profile: bytes | None, scene: remembered.Scene | None) -> None:
        self.profile = profile
        """The text of the file that the profile is in; None if it was not read."""
        self.scene = scene
        """None if nothing can be remembered about it."""


def start_of(arguments: argparse.Namespace) -> Start:
    """Return the start that a command line asks for."""
    profile = None
    if is_possible(arguments):
        with suppress(PaddockError, OSError):
            profile = _written(arguments.profile)
            return Start(profile, _scene(arguments, profile))
    return Start(profile, None)


def run(scene: remembered.Scene, arguments: argparse.Namespace, argv: Sequence[str]) -> int | None:
    """Run a command, and return its exit status; None if it was not run."""
    janitor = Janitor(scene.directory)
    try:
        environment = without_secrets(os.environ) | dict(arguments.env)
        confined = _prepared(scene, argv, environment, janitor)
        return None if confined is None else run_confined(confined).status
    finally:
        janitor.close()


def _prepared(
    scene: remembered.Scene, argv: Sequence[str], environment: Mapping[str, str], janitor: Janitor
) -> Confined | None:
    """Make a command ready to start; None if that takes a plan."""
    try:
        found = remembered.recall(scene, janitor)
        return None if found is None else found.prepare(argv, environment, janitor)
    except (PaddockError, OSError):
        return None


def keep(scene: remembered.Scene, groundwork: Groundwork) -> None:
    """Remember how the sandbox of a command was made that runs by now, if possible."""
    with suppress(PaddockError, OSError):
        if groundwork.held is not None and groundwork.program is not None:
            remembered.keep(
                scene,
                groundwork.held,
                groundwork.lookups,
                groundwork.program,
                is_whole=groundwork.is_whole,
            )


def _scene(arguments: argparse.Namespace, profile: bytes | None) -> remembered.Scene:
    """Return where we are, and what is wanted. Raises OSError and NoRuntimeDirectory."""
    user = os.getuid()
    directory = runtime_directory.provide(runtime_directory.candidates(os.environ, user), user)
    private = runtime_directory.everywhere(os.environ, user)
    runtime_directory.reserve(private, user)
    wanted = (arguments.profile, profile, arguments.no_proc, *(arguments.policy_cwd or ()))
    return remembered.Scene(wanted, directory, private)


def _written(profile: str) -> bytes | None:
    """Return the text of the file that a profile is in; None if it is built in or given as it is."""
    if profile.startswith(":") or profile.lstrip().startswith("{"):
        return None
    path = profile.partition("#")[0]
    # As whoever reads the profile does: no command may change the file.
    installation.obey(path)
    with open(path, "rb") as file:
        return file.read(SIZE_LIMIT_BYTES + 1)
