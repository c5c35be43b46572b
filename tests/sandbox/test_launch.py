"""Commands that are made ready: on this host, and on hosts that can do less."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from paddock import own_program
from paddock.errors import ProfileExceeded, ProfileRefused, SandboxUnavailable
from paddock.model.host import BwrapCapabilities, Enforcement, HostFacts, Problem
from paddock.model.profile import (
    Access,
    AccessEntry,
    DisabledProfile,
    ExactPath,
    ExternalProfile,
    GlobPath,
    Limits,
    ManagedProfile,
    MinimalPath,
    NamedPath,
    NetworkMode,
    Profile,
    ProjectRoots,
    RestrictedFileSystem,
    RootPath,
)
from paddock.sandbox.denial.exec_answer import ExecPolicy, Run
from paddock.sandbox.enforce import bwrap, init
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.report import Report, ReportKind
from paddock.sandbox.host import probe, question
from paddock.sandbox.host.kernel_file import closed_files
from paddock.sandbox.host.landlock_abi import COMPLETE_ABI
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.plan.cap import Cap
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.plan_attempts import PLAN_LIMIT, PlanAttempts
from paddock.sandbox.planner import Planner
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.enforced import EnforcedProfile
from paddock.sandbox.profile.table import built_in

READ_ONLY = built_in(":read-only")
PROJECT_WRITE = ManagedProfile(
    file_system=RestrictedFileSystem(
        entries=(
            AccessEntry(path=NamedPath(value=RootPath()), access=Access.READ),
            AccessEntry(path=NamedPath(value=ProjectRoots()), access=Access.WRITE),
        )
    )
)
EVERYTHING_READ = ManagedProfile(
    file_system=RestrictedFileSystem(
        entries=(AccessEntry(path=NamedPath(value=RootPath()), access=Access.READ),)
    )
)
NO_USER_NAMESPACES = Problem("user namespaces", "they are switched off", "switch them on")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    directory = tmp_path / "private"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def host() -> HostFacts:
    return probe.host()


def _run(
    host: HostFacts,
    private: Path,
    profile: Profile,
    argv: list[str],
    *,
    use_legacy_landlock: bool = False,
    project: Path | None = None,
) -> tuple[int, str, Enforcement, list[Report]]:
    sandbox = Sandbox(host, private, use_legacy_landlock=use_legacy_landlock)
    root = str(project or private.parent)
    command = Command(argv, root, (root,), os.environ)
    try:
        confined = sandbox.prepare(profile, command)
        done = subprocess.run(
            confined.argv(confined.files),
            pass_fds=confined.files,
            cwd=private.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        confined.started()
        reports = confined.ended(was_killed=done.returncode < 0)
        return done.returncode, done.stdout + done.stderr, confined.enforcement, reports
    finally:
        sandbox.close()


@pytest.fixture
def open_files(host: HostFacts) -> Iterator[None]:
    """Fails a test that leaves descriptors open, but for those of programs and of the mount table."""
    assert host.bwrap is not None
    own_program.find("rg", own_program.search_path())
    own_program.opened(init.PATH)
    closed_files()
    before = set(os.listdir("/proc/self/fd"))
    yield
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.usefixtures("open_files")
def test_what_became_of_the_command_is_reported(host: HostFacts, private: Path) -> None:
    status, _, enforcement, reports = _run(host, private, READ_ONLY, ["/bin/sh", "-c", "exit 3"])
    assert (status, [report.kind for report in reports]) == (3, [ReportKind.CONFINED, ReportKind.EXITED])
    assert enforcement in (Enforcement.FULL, Enforcement.PARTIAL)
    status, _, _, reports = _run(host, private, READ_ONLY, ["no-such-program"])
    assert status == 127
    assert ReportKind.NOT_EXECUTED in [report.kind for report in reports]


def test_bubblewrap_that_fails_leaves_no_report(host: HostFacts, private: Path) -> None:
    assert host.bwrap is not None
    broken = replace(host, bwrap=replace(host.bwrap, path="/bin/false", fd=None))
    status, _, _, reports = _run(broken, private, READ_ONLY, ["/bin/true"])
    assert (status, reports) == (1, [])


def test_bubblewrap_with_no_more_than_the_needed_options_will_do(host: HostFacts, private: Path) -> None:
    assert host.bwrap is not None
    needed = BwrapCapabilities(perms=True, seccomp=True, as_pid_1=True, args=True)
    old = replace(host, bwrap=replace(host.bwrap, capabilities=needed))
    status, output, _, _ = _run(old, private, READ_ONLY, ["/bin/sh", "-c", "touch here || echo refused"])
    assert status == 0
    assert "refused" in output


def test_command_has_as_many_arguments_as_the_system_takes(host: HostFacts, private: Path) -> None:
    arguments = [str(number) for number in range(20_000)]
    status, output, _, _ = _run(host, private, READ_ONLY, ["/bin/echo", *arguments])
    assert (status, output.split()) == (0, arguments)


def test_root_that_leads_to_another_directory_by_now_is_refused(
    host: HostFacts, private: Path, tmp_path: Path
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    (here / "project").mkdir(parents=True)
    (elsewhere / "project").mkdir(parents=True)
    root = here / "project"
    status = root.stat()
    command = Command(
        ["/bin/true"], str(root), (str(root),), os.environ, root_id=(status.st_dev, status.st_ino)
    )
    profile = ExternalProfile(network=NetworkMode.RESTRICTED)
    sandbox = Sandbox(host, private)
    try:
        assert sandbox.planner.plan(profile, command).cwd == str(root)
        here.rename(tmp_path / "moved")
        here.symlink_to(elsewhere)
        with pytest.raises(ProfileRefused, match="leads to another directory now"):
            sandbox.planner.plan(profile, command)
    finally:
        sandbox.close()


class Restless(Planner):
    """Plans with all the directories, one of which is gone when the plan is carried out."""

    def __init__(self, host: HostFacts, private: Path, directories: list[Path], changes: list[int]) -> None:
        super().__init__(host, private)
        self.directories = directories
        self.changes = changes
        self.plan_count = 0
        self.change_count = 0

    def plan(
        self,
        profile: EnforcedProfile,
        command: Command,
        *,
        has_proc: bool = True,
        is_strict: bool = False,
        lookups: LookupRecord | None = None,
    ) -> Plan:
        for directory in self.directories:
            directory.mkdir(exist_ok=True)
        self.plan_count += 1
        return super().plan(profile, command, has_proc=has_proc, is_strict=is_strict, lookups=lookups)

    def change(self) -> None:
        if self.changes and self.change_count < self.plan_count:
            self.change_count = self.plan_count
            self.directories[self.changes.pop()].rmdir()


@pytest.fixture
def restless(host: HostFacts, private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Restless:
    planner = Restless(host, private, [tmp_path / "one", tmp_path / "two"], [])
    as_planned = bwrap.options

    def options(*plan: Any, **more: Any) -> list[str]:
        planner.change()
        return as_planned(*plan, **more)

    monkeypatch.setattr(bwrap, "options", options)
    return planner


@pytest.fixture
def unsteady(host: HostFacts, private: Path, restless: Restless) -> Iterator[Sandbox]:
    sandbox = Sandbox(host, private)
    sandbox.planner = restless
    yield sandbox
    sandbox.close()


def _read_only(directories: list[Path]) -> ManagedProfile:
    entries = [AccessEntry(path=ExactPath(path=str(path)), access=Access.READ) for path in directories]
    minimal = AccessEntry(path=NamedPath(value=MinimalPath()), access=Access.READ)
    return ManagedProfile(file_system=RestrictedFileSystem(entries=(minimal, *entries)))


@pytest.mark.usefixtures("open_files")
def test_a_plan_is_made_again_when_a_file_has_vanished_since(unsteady: Sandbox, restless: Restless) -> None:
    command = Command(["/bin/true"], "/", (), os.environ)
    restless.changes = [0, 1]
    confined = unsteady.prepare(_read_only(restless.directories), command)
    done = subprocess.run(confined.argv(confined.files), pass_fds=confined.files, check=False)
    confined.started()
    confined.ended(was_killed=False)
    assert (done.returncode, restless.plan_count) == (0, 3)


@pytest.mark.usefixtures("open_files")
def test_whatever_kept_changing_is_named_after_the_last_plan(unsteady: Sandbox, restless: Restless) -> None:
    command = Command(["/bin/true"], "/", (), os.environ)
    restless.changes = [0, 1] * PLAN_LIMIT
    with pytest.raises(ProfileRefused) as refusal:
        unsteady.prepare(_read_only(restless.directories), command)
    assert restless.plan_count == PLAN_LIMIT
    one, two = restless.directories
    assert refusal.value.problem.endswith(f"each time the files had changed: {two} changed; {one} changed")


@pytest.mark.usefixtures("open_files")
def test_plans_that_came_to_nothing_after_the_start_count_as_well(
    unsteady: Sandbox, restless: Restless
) -> None:
    command = Command(["/bin/true"], "/", (), os.environ)
    restless.changes = [0, 1] * PLAN_LIMIT
    attempts = PlanAttempts()
    for _ in range(PLAN_LIMIT - 2):
        attempts.may_plan_again("the sandbox could not be made")
    with pytest.raises(ProfileRefused, match=r"could not be made; \S+ changed; \S+ changed"):
        unsteady.prepare(_read_only(restless.directories), command, attempts=attempts)
    assert restless.plan_count == 2


EXCHANGE = """#!/bin/sh
mv {project}/a {project}/b
{exchange}
exec {bwrap} "$@"
"""


@pytest.mark.parametrize("exchange", ["ln -s b {project}/a", "mkdir {project}/a; touch {project}/a/x.env"])
def test_directory_that_is_exchanged_while_it_is_mounted_starts_nothing(
    host: HostFacts, private: Path, exchange: str
) -> None:
    """Other commands in the tree could do so; here bubblewrap itself does, so that it is always in time."""
    assert host.bwrap is not None
    project = private.parent / "project"
    (project / "a").mkdir(parents=True)
    (project / "a" / "x.env").touch()
    exchanging = private / "bwrap"
    exchanging.write_text(
        EXCHANGE.format(project=project, exchange=exchange.format(project=project), bwrap=host.bwrap.path)
    )
    exchanging.chmod(0o755)
    hostile = replace(host, bwrap=replace(host.bwrap, path=str(exchanging), fd=None))
    profile = ManagedProfile(
        file_system=RestrictedFileSystem(
            entries=(
                AccessEntry(path=NamedPath(value=RootPath()), access=Access.READ),
                AccessEntry(path=NamedPath(value=ProjectRoots()), access=Access.WRITE),
                AccessEntry(path=GlobPath(pattern=f"{project}/**/*.env"), access=Access.DENY),
            )
        )
    )
    status, output, _, reports = _run(hostile, private, profile, ["/bin/touch", "started"], project=project)
    assert (status, [report.kind for report in reports]) == (125, [ReportKind.NOT_CONFINED])
    assert f"it was exchanged meanwhile: {project}/a" in output
    assert not (project / "started").exists()


def test_verified_bubblewrap_is_executed_through_its_descriptor(host: HostFacts, private: Path) -> None:
    assert host.bwrap is not None
    fd = os.open(host.bwrap.path, os.O_RDONLY)
    try:
        bundled = replace(host, bwrap=replace(host.bwrap, path="/no/such/file", fd=fd, is_bundled=True))
        assert _run(bundled, private, READ_ONLY, ["/bin/echo", "ran"])[:2] == (0, "ran\n")
    finally:
        os.close(fd)


@pytest.mark.usefixtures("open_files")
def test_host_that_can_not_enforce_a_profile_starts_nothing(host: HostFacts, private: Path) -> None:
    for poor in (
        replace(host, can_unshare=False, problems=(NO_USER_NAMESPACES,)),
        replace(host, bwrap=None, problems=()),
    ):
        with pytest.raises(SandboxUnavailable):
            _run(poor, private, READ_ONLY, ["/bin/touch", "started"])
    assert not (private.parent / "started").exists()


def test_bubblewrap_where_commands_can_write_confines_nothing(host: HostFacts, private: Path) -> None:
    assert host.bwrap is not None
    planted = replace(host, bwrap=replace(host.bwrap, path=str(private.parent / "bin" / "bwrap")))
    assert _run(planted, private, READ_ONLY, ["/bin/echo", "ran"])[:2] == (0, "ran\n")
    with pytest.raises(SandboxUnavailable, match=rf"lies in {private.parent}, which the profile makes"):
        _run(planted, private, PROJECT_WRITE, ["/bin/true"])


def test_network_alone_is_refused_without_namespaces_and_that_is_told(host: HostFacts, private: Path) -> None:
    poor = replace(host, can_unshare=False, problems=(NO_USER_NAMESPACES,))
    script = "import socket; socket.socket()"
    external = ExternalProfile(network=NetworkMode.RESTRICTED)
    status, output, enforcement, _ = _run(poor, private, external, ["/usr/bin/python3", "-c", script])
    assert status == 1
    assert "PermissionError" in output
    assert enforcement is Enforcement.PARTIAL
    with pytest.raises(SandboxUnavailable):
        _run(poor, private, ExternalProfile(network=NetworkMode.LOOPBACK), ["/bin/true"])


def test_profile_that_asks_for_nothing_starts_the_command_itself(host: HostFacts, private: Path) -> None:
    assert _run(host, private, DisabledProfile(), ["/bin/echo", "plain"]) == (
        0,
        "plain\n",
        Enforcement.NONE,
        [],
    )


def test_landlock_alone_is_used_when_asked_for_and_able(host: HostFacts, private: Path) -> None:
    if host.landlock_abi < 3:
        pytest.skip("the kernel has no Landlock that can forbid to truncate")
    status, output, enforcement, _ = _run(
        host, private, READ_ONLY, ["/bin/sh", "-c", "touch here || echo refused"], use_legacy_landlock=True
    )
    assert (status, enforcement) == (0, Enforcement.PARTIAL)
    assert "refused" in output
    with pytest.raises(SandboxUnavailable, match="protects paths below writable ones"):
        _run(host, private, built_in(":workspace"), ["/bin/true"], use_legacy_landlock=True)


def test_level_is_that_of_the_weakest_mechanism(host: HostFacts, private: Path) -> None:
    sandbox = Sandbox(replace(host, landlock_abi=COMPLETE_ABI), private)
    poor = Sandbox(replace(host, can_unshare=False), private)
    network_alone = ExternalProfile(network=NetworkMode.RESTRICTED)
    assert sandbox.level_of(EVERYTHING_READ) is Enforcement.FULL
    assert sandbox.level_of(DisabledProfile()) is Enforcement.NONE
    assert poor.level_of(network_alone) is Enforcement.PARTIAL
    for each in (sandbox, poor):
        each.close()


def test_limits_and_interception_that_a_host_does_not_have_start_nothing(
    host: HostFacts, private: Path
) -> None:
    command = Command(["/bin/true"], "/", ("/",), os.environ)
    uncounted = Sandbox(replace(host, memory_cgroup=None), private)
    limited = replace(PROJECT_WRITE, limits=Limits(total_memory_bytes=1 << 30))
    with pytest.raises(SandboxUnavailable, match="memory of a command as a whole can't be limited"):
        uncounted.prepare(limited, command)
    alone = Sandbox(host, private, use_legacy_landlock=True)
    with pytest.raises(SandboxUnavailable, match="only what bubblewrap confines can be intercepted"):
        alone.prepare(EVERYTHING_READ, command, execution_policy=lambda _: ExecPolicy(lambda *_: Run()))
    for each in (uncounted, alone):
        each.close()


def test_what_is_hidden_and_the_cap_can_be_renewed(host: HostFacts, private: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch()
    command = Command(["/bin/true"], str(tmp_path), (str(tmp_path),), os.environ)
    sandbox = Sandbox(host, private)

    def access() -> Access:
        return AccessTable(sandbox.planner.plan(PROJECT_WRITE, command).rules).access_of(str(secret))

    assert access() is Access.WRITE
    sandbox.renew([secret], None)
    assert access() is Access.DENY
    sandbox.renew([], Cap("most", EVERYTHING_READ, (str(tmp_path),)))
    with pytest.raises(ProfileExceeded, match="most"):
        access()
    sandbox.close()


def test_command_that_needs_no_plan_is_held_against_the_cap(host: HostFacts, private: Path) -> None:
    poor = replace(host, can_unshare=False)
    root = str(private.parent)
    command = Command(["/bin/true"], root, (root,), os.environ)
    network_alone = ExternalProfile(network=NetworkMode.RESTRICTED)
    sandbox = Sandbox(poor, private, cap=Cap("most", EVERYTHING_READ, (root,)))
    with pytest.raises(ProfileExceeded, match="most"):
        sandbox.prepare(network_alone, command)
    sandbox.renew([], Cap("more", network_alone, (root,)))
    sandbox.prepare(network_alone, command).ended(was_killed=False)
    sandbox.close()


def test_cap_that_can_not_be_resolved_is_named(host: HostFacts, private: Path, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    denied = AccessEntry(path=ExactPath(path=str(tmp_path / "a")), access=Access.DENY)
    profile = ManagedProfile(file_system=RestrictedFileSystem(entries=(denied,)))
    planner = Planner(host, private, cap=Cap("most", profile, (str(tmp_path),)))
    with pytest.raises(ProfileRefused, match="of the profile most is behind") as refusal:
        planner.plan(EVERYTHING_READ, Command(["/bin/true"], "/", (str(tmp_path),), os.environ))
    assert refusal.value.remedy == "remove the link"


def test_without_the_table_of_mounts_nothing_is_planned(
    host: HostFacts, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> bytes:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    planner = Planner(host, private)
    monkeypatch.setattr(question, "read_table", fail)
    with pytest.raises(ProfileRefused, match="the table of mounts can't be read: No such file"):
        planner.plan(EVERYTHING_READ, Command(["/bin/true"], "/", ("/",), os.environ))
