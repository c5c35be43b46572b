"""Asks the running system what it can enforce.

Every question is a method here, so that tests can imitate hosts that do not exist. No method raises:
"unknown" is an answer too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from paddock.own_program import ROOT, own_environment

if TYPE_CHECKING:
    from subprocess import Popen

TRIAL_TIMEOUT_S: Final = 5.0
"""Some hundred times what bubblewrap takes on an idle machine."""

_CREATE_RULESET: Final = 444
"""landlock_create_ruleset(2), the same number on every machine."""
_CREATE_RULESET_VERSION: Final = 1


class Trial(Struct, frozen=True):
    """The outcome of running a program to see whether it works."""

    status: int | None
    """None if it could not be started or did not end in time."""
    stdout: str
    stderr: str

    @property
    def is_success(self) -> bool:
        """Return whether the program ended with status 0."""
        return self.status == 0


class Kernel:
    """The host that this process runs on."""

    def machine(self) -> str:
        """Return the machine, as `uname -m` says it."""
        return os.uname().machine

    def release(self) -> str:
        """Return the version of the kernel."""
        return os.uname().release

    def user(self) -> int:
        """Return the user whose rights count."""
        return os.geteuid()

    def content(self, path: str) -> bytes | None:
        """Return the content of a small file, such as one with names in /proc; None if it can't be read."""
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None

    def text(self, path: str) -> str | None:
        """Return the text of a small file, such as a setting in /proc/sys; None if it can't be read."""
        content = self.content(path)
        return None if content is None else content.decode("utf-8", "replace").strip()

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        return os.path.lexists(path)

    def can_write(self, path: str) -> bool:
        """Return whether this user may write to a file, or create something in a directory."""
        return os.access(path, os.W_OK)

    def attribute(self, path: str, name: str) -> bytes | None:
        """Return an extended attribute of a file; None if there is none, or we may not see it."""
        try:
            return os.getxattr(path, name)
        except OSError:
            return None

    def landlock_abi(self) -> int:
        """Return the version of Landlock; 0 without it."""
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION)
        return max(int(version), 0)

    def run(self, argv: Sequence[str], descriptors: Sequence[int] = ()) -> Trial:
        """Run a program with nothing on its stdin and wait for its end, though not forever.

        Kills the program and its children when its time is up. If this process is killed meanwhile, the
        program goes on to its own end.
        """
        import subprocess

        try:
            running = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
                cwd=ROOT,
                env=own_environment(),
                process_group=0,
            )
        except OSError as error:
            return Trial(None, "", error.strerror or str(error))
        with running:
            try:
                stdout, stderr = running.communicate(timeout=TRIAL_TIMEOUT_S)
            except BaseException as error:
                kill_group(running)
                if isinstance(error, subprocess.TimeoutExpired):
                    return Trial(None, "", f"no answer within {TRIAL_TIMEOUT_S:g} s")
                raise
        return Trial(running.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


def kill_group(trial: Popen[Any]) -> None:
    """Kill a trial that was started with `process_group=0`, and its children. Idempotent.

    bubblewrap alone must not be killed: its child may be waiting for it to map the user, and would wait for
    ever.
    """
    import signal

    # Nobody else can get the group's number before the trial is waited for.
    if trial.poll() is None:
        os.killpg(trial.pid, signal.SIGKILL)
