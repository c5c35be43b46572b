"""Tries whether a server can keep spare sandboxes here, with one of `:workspace` in an empty directory.

Where spares are impossible, a command gets a sandbox of its own, which takes longer and is just as safe.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from paddock.cli.finding import Finding, Level
from paddock.errors import PaddockError
from paddock.model.host import HostFacts
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.confined import Confined
from paddock.sandbox.enforce.mount_source import FileMoved
from paddock.sandbox.enforce.report import ReportKind
from paddock.sandbox.enforce.spare import Spare, Unsuitable
from paddock.sandbox.host import probe
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.profile.enforced import EnforcedProfile, is_enforced
from paddock.sandbox.profile.table import built_in
from paddock.sandbox.spares import Spares

NAME: Final = "spare sandboxes"
TIMEOUT_S: Final = 10.0


class _Failed(Exception):
    """What went wrong with the trial."""


def check_spares(facts: HostFacts) -> Finding:
    """Check whether a command can be put into a sandbox that was there before."""
    if probe.enforcement(facts) is None:
        return Finding(NAME, Level.WARN, "can't be tried without sandboxes", "see sandbox")
    # Outside /tmp, which the profile grants.
    with tempfile.TemporaryDirectory(prefix="paddock-doctor-", dir="/var/tmp") as directory:
        base = Path(directory).resolve()
        for name in ("workspace", "private"):
            (base / name).mkdir(mode=0o700)
        sandbox = Sandbox(facts, base / "private", has_own_session=False)
        try:
            _try(Spares(sandbox), str(base / "workspace"))
        except (_Failed, Unsuitable, FileMoved, PaddockError, OSError) as error:
            reason = str(error) or type(error).__name__
            detail = f"can't be used, so every command waits for one of its own: {reason}"
            remedy = "use Linux 5.12 or newer, and let its users enter their own namespaces"
            return Finding(NAME, Level.WARN, detail, remedy)
        finally:
            sandbox.close()
    return Finding(NAME, Level.OK, "can be kept, and masks can be mounted in them when a command comes")


def _try(spares: Spares, workspace: str) -> None:
    profile = built_in(":workspace")
    assert is_enforced(profile)
    command = Command(["/bin/true"], workspace, (workspace,), {"PATH": os.defpath})
    spare = spares.prepare(profile, command)
    try:
        _run(spares, spare, profile, command)
    finally:
        spare.close()
        spare.confined.started()
        spare.confined.ended(was_killed=True)


def _run(spares: Spares, spare: Spare, profile: EnforcedProfile, command: Command) -> None:
    files = spare.confined.files
    with subprocess.Popen(
        spare.confined.argv(files),
        pass_fds=files,
        env=dict(spare.confined.environment),
        cwd=spare.confined.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        spare.confined.started()
        try:
            _await(spare.confined, ReportKind.WAITING)
            spare.settle()
            confined = spares.take(spare, profile, command)
            if confined is None:
                raise _Failed("masks can't be mounted late")
            try:
                with open(os.devnull, "r+b") as null:
                    spare.send(confined.files[0], [null.fileno()] * 3)
                _await(confined, ReportKind.CONFINED)
                process.wait(TIMEOUT_S)
            finally:
                confined.started()
                confined.ended(was_killed=process.returncode is None)
        except subprocess.TimeoutExpired as error:
            raise _Failed("the trial does not end") from error
        finally:
            process.kill()


def _await(confined: Confined, kind: ReportKind) -> None:
    file = confined.report_file
    if file is None or not select.select([file], [], [], TIMEOUT_S)[0]:
        raise _Failed("the trial does not begin")
    if not any(report.kind is kind for report in confined.reports()):
        raise _Failed(f"the init does not report {kind.name.lower()}")
