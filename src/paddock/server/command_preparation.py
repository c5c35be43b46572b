"""Makes a command of a request ready to be started in its sandbox.

Blocks while it looks at files. The server loads it when a client first asks for a sandbox.
"""

from __future__ import annotations

import errno
import os

from paddock.errors import SpawnError
from paddock.host_text import local_text, utf8_environment
from paddock.model.profile import Profile
from paddock.process.launch import LaunchSpec
from paddock.process.spawn_request import SpawnStage
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.confined import Confined
from paddock.sandbox.enforce.spare import Spare
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.plan_attempts import PlanAttempts
from paddock.sandbox.profile.enforced import is_enforced
from paddock.sandbox.spares import Spares
from paddock.server.confinement import Confinement


def prepare_command(
    sandbox: Sandbox, wanted: Confinement, spec: LaunchSpec, argv: list[str], attempts: PlanAttempts
) -> Confined:
    """Prepare a command, or without `argv` a sandbox that others enter.

    `attempts` are those of the command. Raises SpawnError if its directory can't be entered, or as
    `Sandbox.prepare`.
    """
    command = _command(wanted, spec, argv)
    if argv:
        _require_directory(sandbox, wanted.profile, command)
    return sandbox.prepare(
        wanted.profile,
        command,
        is_traced=wanted.is_traced,
        execution_policy=None if wanted.decider is None else wanted.decider.policy,
        is_strict=wanted.decider is not None and wanted.decider.is_strict,
        attempts=attempts,
        proxy_ports=() if wanted.network is None else wanted.network.ports,
        bundle=None if wanted.network is None else wanted.network.bundle,
    )


def prepare_spare(spares: Spares, wanted: Confinement, spec: LaunchSpec) -> Spare:
    """Make a sandbox ready for the next command like this one. Raises as `Spares.prepare`."""
    assert is_enforced(wanted.profile)
    return spares.prepare(wanted.profile, _command(wanted, spec, []))


def take_spare(
    spares: Spares, spare: Spare, wanted: Confinement, spec: LaunchSpec, argv: list[str]
) -> Confined | None:
    """Make a command ready for a sandbox that waits; None if it needs another.

    Raises as `prepare_command`.
    """
    assert is_enforced(wanted.profile)
    command = _command(wanted, spec, argv)
    _require_directory(spares.sandbox, wanted.profile, command)
    return spares.take(spare, wanted.profile, command)


def _command(wanted: Confinement, spec: LaunchSpec, argv: list[str]) -> Command:
    """Return the command with text as the engine has it; that of the wire is UTF-8."""
    environment = spec.env if argv else utf8_environment()
    return Command(
        argv=[local_text(word) for word in argv],
        cwd=local_text(spec.cwd),
        project_roots=tuple(local_text(root) for root in wanted.project_roots),
        environment={local_text(name): local_text(value) for name, value in environment.items()},
        arg0=local_text(spec.argv[0]) if argv and spec.argv[0] != argv[0] else None,
    )


def _require_directory(sandbox: Sandbox, profile: Profile, command: Command) -> None:
    """Refuse a command whose working directory it could not enter. Raises SpawnError.

    The command enters it inside the sandbox alone. If the directory is hidden there, the server does not make
    the sandbox, and reveals nothing about the directory.
    """
    try:
        # The dot makes the kernel check the right to search the directory, which is what entering it takes.
        os.close(os.open(os.path.join(command.cwd, "."), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        number = error.errno or errno.ENOENT
        if is_enforced(profile):
            sandbox.planner.refuse_hidden_directory(profile, command)
        raise SpawnError(SpawnStage.CWD, number, command.argv[0], command.cwd) from error
