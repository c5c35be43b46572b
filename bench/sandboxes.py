"""Rows about confining a command: what a sandbox costs on top of the program in it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from bench.errors import BenchError
from bench.row import Figure, Row, Unit
from bench.servers import Contender
from paddock.sandbox.enforce import bwrap, init
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.unreadable import unreadable_file
from paddock.sandbox.host import probe
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.plan.mount import Devices
from paddock.sandbox.profile.codec import encode_profile
from paddock.sandbox.profile.table import built_in

PROGRAM = "/bin/true"
STARTS = 10
HELPER = "codex-linux-sandbox"
"""The name by which the peer's program is told to be its sandbox."""


class ConfinedTrue(Row):
    """A program that does nothing under `:workspace`, one after the other, by a launcher that is running.

    The peer has no such launcher: its helper is started for each command. The parts of a start are what the
    launcher does before, what others do meanwhile, and what the launcher does afterwards.
    """

    name = "sandbox"
    figures = (
        Figure("sandboxed true, p50", Unit.SECONDS, goal=2),
        Figure("the same, times bubblewrap", Unit.TIMES, bound=1.25),
        Figure("of it, processor time of the launcher", Unit.SECONDS, bound=0.002),
        Figure("of it, plan, places and descriptors", Unit.SECONDS),
        Figure("of it, bubblewrap, paddock-init and the program", Unit.SECONDS),
        Figure("of it, reports and places removed", Unit.SECONDS),
    )
    bare = "bubblewrap alone with the same mounts, whose places are there already"

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="paddock-bench-", dir="/var/tmp")
        base = Path(self._directory.name)
        self._workspace = base / "workspace"
        self._workspace.mkdir()
        self._private = base / "private"
        self._private.mkdir(mode=0o700)
        self._profile = built_in(":workspace")
        self._host = probe.host()
        self._sandbox = Sandbox(self._host, self._private)
        self._command = Command(
            [PROGRAM], str(self._workspace), (str(self._workspace),), {"PATH": os.defpath}
        )

    def measure(self, contender: Contender) -> Sequence[float | None]:
        if contender.name == "paddock":
            starts = [self._run_confined() for _ in range(STARTS)]
            whole, *parts = map(statistics.median, zip(*starts, strict=True))
            return whole, whole / self.bubblewrap_s(), *parts
        return _median(lambda: self._run_peer(contender)), *(None,) * (len(self.figures) - 1)

    def limit(self) -> Sequence[float | None]:
        return self.bubblewrap_s(), *(None,) * (len(self.figures) - 1)

    def bubblewrap_s(self) -> float:
        """How long the program takes in bubblewrap alone."""
        confined = self._sandbox.prepare(self._profile, self._command)
        confined.started()
        assert confined.plan is not None
        assert self._host.bwrap is not None
        files = bwrap.HostFiles(init=str(init.PATH), unreadable=unreadable_file(self._private))
        # Nobody makes them for it here.
        mounts = [Devices() if isinstance(mount, Devices) else mount for mount in confined.plan.mounts]
        plan = replace(confined.plan, mounts=tuple(mounts))
        options = bwrap.options(plan, self._host.bwrap.capabilities, files)
        argv = [self._host.bwrap.path, *options, "--", PROGRAM]
        try:
            return _median(lambda: _run(argv))
        finally:
            confined.ended(was_killed=False)

    def close(self) -> None:
        self._sandbox.close()
        self._directory.cleanup()

    def _run_confined(self) -> tuple[float, ...]:
        """Run the program once; return how long it took as a whole, and in parts."""
        begun_s, used_s = time.perf_counter(), time.process_time()
        confined = self._sandbox.prepare(self._profile, self._command)
        ready_s, used_s = time.perf_counter(), time.process_time() - used_s
        try:
            _run(confined.argv(confined.files), confined.files)
        finally:
            exited_s, used_later_s = time.perf_counter(), time.process_time()
            confined.started()
            confined.ended(was_killed=False)
        ended_s, used_later_s = time.perf_counter(), time.process_time() - used_later_s
        parts = ready_s - begun_s, exited_s - ready_s, ended_s - exited_s
        return ended_s - begun_s, used_s + used_later_s, *parts

    def _run_peer(self, contender: Contender) -> None:
        # Where it finds itself again inside the sandbox.
        helper = self._private.parent / HELPER
        if not helper.exists():
            helper.symlink_to(contender.serve_command[0])
        profile = encode_profile(self._profile).decode()
        options = ("--sandbox-policy-cwd", str(self._workspace), "--permission-profile", profile)
        _run([str(helper), *options, "--", PROGRAM], environment=contender.environment)


class OneShot(Row):
    """`paddock sandbox -- true` and `paddock run -- true` by hand, beside `codex sandbox -- true`."""

    name = "one-shot"
    figures = (
        Figure("sandbox -- true, p50", Unit.SECONDS, goal=1),
        Figure("run -- true beside the peer's sandbox -- true, p50", Unit.SECONDS, goal=0.5),
    )
    bare = "python -I -S -c pass"

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="paddock-bench-", dir="/var/tmp")

    def measure(self, contender: Contender) -> Sequence[float]:
        program = contender.serve_command[0]
        confined = self._median([program, "sandbox", "--", PROGRAM], contender)
        if contender.name == "peer":
            return confined, confined
        return confined, self._median([program, "run", "--", PROGRAM], contender)

    def limit(self) -> Sequence[float | None]:
        bare = _median(lambda: _run([sys.executable, "-I", "-S", "-c", "pass"]))
        return bare, bare

    def close(self) -> None:
        self._directory.cleanup()

    def _median(self, argv: Sequence[str], contender: Contender) -> float:
        home = {"HOME": self._directory.name}
        environment = {**home, **contender.environment}
        return _median(lambda: _run(argv, environment=environment, cwd=self._directory.name))


def _median(work: Callable[[], None]) -> float:
    samples = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        work()
        samples.append(time.perf_counter() - begun)
    return statistics.median(samples)


def _run(
    argv: Sequence[str],
    files: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> None:
    variables = {"PATH": os.defpath, **(environment or {})}
    done = subprocess.run(argv, pass_fds=files, env=variables, cwd=cwd, capture_output=True, check=False)
    if done.returncode:
        raise BenchError(f"{argv[0]} ended with {done.returncode}: {done.stderr.decode()[-200:].strip()}")
