"""Starts of paddock-init, as a launcher makes them: through a descriptor, with or without bubblewrap."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from paddock.model.profile import Limits, NetworkMode
from paddock.own_program import own_environment
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.report import Report, read_reports
from paddock.sandbox.plan import seccomp
from paddock.sandbox.plan.landlock import Ruleset
from tests.sandbox.identity import drop_to

TIMEOUT_S = 20.0

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
"""That of every command."""

COUNTING = """\
import signal, sys
numbers = {signal.SIGUSR1, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
seen = 0
while signal.sigwait(numbers) == signal.SIGUSR1: seen += 1
sys.exit(seen)
"""
"""Ends at SIGTERM with the number of SIGUSR1 it has seen as its status."""

# The whole file system stays writable: these tests are about what comes after the mounts.
MOUNTS = ["--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
NAMESPACES = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net"]
OTHERS = ["--die-with-parent", "--cap-drop", "ALL", "--as-pid-1"]


@dataclass(frozen=True)
class Outcome:
    status: int
    stdout: str
    stderr: str
    reports: list[Report] = field(default_factory=list)


@dataclass(frozen=True)
class Start:
    """One way to start the init."""

    user: int
    has_bwrap: bool = True
    mode: NetworkMode | None = None
    filter: bytes | None = None
    """In place of the filter of a mode."""
    limits: Limits | None = None
    ruleset: Ruleset | None = None
    has_own_session: bool = True
    argv0: str | None = None
    is_isolated: bool = False
    holds: bool = False
    """To keep the sandbox for others, without a command."""
    options: tuple[str, ...] = ()
    """More of bubblewrap's."""

    def run(self, *command: str) -> Outcome:
        """Run a command to its end."""
        with self.prepared(command) as (argv, options, report):
            done = subprocess.run(
                argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False, **options
            )
            os.close(options["pass_fds"][0])
            with os.fdopen(os.dup(report), "rb") as pipe:
                reports = read_reports(pipe.read())
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(), reports)

    @contextmanager
    def popen(self, *command: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A command that runs meanwhile; killed at the end if it has not ended."""
        with self.prepared(command) as (argv, options, _):
            process = subprocess.Popen(argv, **streams, **options)
            try:
                yield process
            finally:
                process.kill()
                process.wait()
                for stream in (process.stdin, process.stdout, process.stderr):
                    if stream is not None:
                        stream.close()

    @contextmanager
    def prepared(self, command: Sequence[str]) -> Iterator[tuple[list[str], dict[str, Any], int]]:
        """Arguments, options for subprocess, and the end of the pipe where the report can be read.

        The other end is the first of the descriptors to pass.
        """
        with ExitStack() as stack:

            def owned(fd: int) -> int:
                stack.callback(_close, fd)
                return fd

            readable, writable = map(owned, os.pipe())
            program = owned(os.open(init.PATH, os.O_RDONLY))
            filter_fd = None
            filter_ = self.filter
            if self.mode is not None:
                filter_ = seccomp.program(self.mode, os.uname().machine)
            if filter_ is not None:
                filter_fd = owned(os.memfd_create("filter"))
                os.write(filter_fd, filter_)
                os.lseek(filter_fd, 0, os.SEEK_SET)
            files = init.descriptor_words(filter_fd=None if self.has_bwrap else filter_fd, report_fd=writable)
            words = init.words(
                limits=self.limits,
                ruleset=self.ruleset,
                argv0=self.argv0,
                environment=ENVIRONMENT,
                holds=self.holds,
                is_isolated=self.is_isolated,
            )
            argv = [f"/proc/self/fd/{program}", *files, *words, "--", *command]
            if self.has_bwrap:
                argv = [*self._bwrap(filter_fd), *argv]
            options = {
                "pass_fds": [fd for fd in (writable, program, filter_fd) if fd is not None],
                "env": own_environment(),
                "cwd": "/",
                "start_new_session": not self.has_bwrap and self.has_own_session,
                **drop_to(self.user),
            }
            yield argv, options, readable

    def _bwrap(self, filter_fd: int | None) -> list[str]:
        path = shutil.which("bwrap")
        if path is None:
            pytest.skip("bubblewrap is not installed")
        argv = [path, *MOUNTS, *NAMESPACES, *OTHERS, *self.options]
        if self.has_own_session:
            argv.append("--new-session")
        if filter_fd is not None:
            argv += ["--seccomp", str(filter_fd)]
        return [*argv, "--"]


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        return
