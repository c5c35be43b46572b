"""From a profile to a command that can be started.

`prepare` reads as the way of a profile: whether this host can enforce it, and by which mechanism; the plan;
the placeholders that it needs; the words for bubblewrap and the init.

`Sandbox` prepares commands; it starts nothing itself, because the command line and
the server start programs in different ways. What it gives is data: an argument list
and the descriptors that the program must inherit. Whoever starts it tells when it
has ended.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from paddock.errors import ProfileRefused, SandboxUnavailable
from paddock.model.host import Bubblewrap, Enforcement, HostFacts, Problem
from paddock.model.interceptor import Interceptor
from paddock.model.profile import Limits, NetworkMode, Profile
from paddock.sandbox.enforce import bwrap, init
from paddock.sandbox.enforce.assembly import (
    Script,
    assemble,
    assemble_init,
    write_script,
)
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.confined import Confined
from paddock.sandbox.enforce.held_script import Groundwork, HeldScript, hold_script
from paddock.sandbox.enforce.janitor import Janitor, PlaceholderTaken
from paddock.sandbox.enforce.mount_source import FileMoved
from paddock.sandbox.enforce.unreadable import unreadable_file
from paddock.sandbox.host import limit, probe
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.plan import landlock, seccomp
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.plan_attempts import PLAN_LIMIT, PlanAttempts
from paddock.sandbox.planner import Planner
from paddock.sandbox.profile.enforced import (
    EnforcedProfile,
    is_about_network_alone,
    is_enforced,
    limits_of,
    network_mode,
)

if TYPE_CHECKING:
    from paddock.sandbox.denial.exec_answer import ExecPolicy
    from paddock.sandbox.denial.tracer import Tracer
    from paddock.sandbox.enforce.cgroup import Groups
    from paddock.sandbox.enforce.service import WrapperService
    from paddock.sandbox.interception import Interceptors
    from paddock.sandbox.plan.cap import Cap

    ExecutionPolicy = Callable[[Plan], ExecPolicy]
    """Gives who decides on the executions of a command, once it is known what confines it."""

NO_BUBBLEWRAP: Final = Problem("bubblewrap", "none that is usable was found", "install it")


class Sandbox:
    """Prepares commands on one host. May be used from any thread; `close` it in the end.

    `directory` is private to the user, for files of the sandbox's own; it and `private`
    are hidden from every command. With `use_legacy_landlock` profiles are enforced by
    Landlock alone, and refused if it can't express them. A command gets a session of its own,
    out of reach of the terminal of whoever starts it; without `has_own_session` that is left to
    the starter, who also has to shield the program from signals that are for the command. A profile that
    grants more than `cap` raises ProfileExceeded.
    """

    def __init__(
        self,
        host: HostFacts,
        directory: str | os.PathLike[str],
        private: Sequence[str | os.PathLike[str]] = (),
        *,
        use_legacy_landlock: bool = False,
        has_own_session: bool = True,
        cap: Cap | None = None,
        interceptors: Interceptors | None = None,
    ) -> None:
        self.host: Final = host
        self._directory = directory
        self._use_legacy_landlock = use_legacy_landlock
        self._has_own_session = has_own_session
        self._given_interceptors = interceptors
        self.janitor: Final = Janitor(directory)
        self.planner = Planner(host, directory, private, cap)

    @property
    def enforcement(self) -> Enforcement:
        """Return the level that confined commands reach here."""
        level = probe.enforcement(self.host) or Enforcement.NONE
        return Enforcement.PARTIAL if self._use_legacy_landlock else level

    @cached_property
    def _interceptors(self) -> Interceptors:
        """Return the interceptors. Imports them on first use: few commands are intercepted."""
        if self._given_interceptors is not None:
            return self._given_interceptors
        from paddock.sandbox.interception import Interceptors

        return Interceptors(self.host)

    def level_of(self, profile: Profile) -> Enforcement:
        """Return the level that a command under a profile reaches, if it can be prepared."""
        if not is_enforced(profile):
            return Enforcement.NONE
        return Enforcement.PARTIAL if self._needs_filter_alone(profile) else self.enforcement

    def renew(self, private: Sequence[str | os.PathLike[str]], cap: Cap | None) -> None:
        """Use these for all plans from now on. Blocks while it examines files."""
        self.planner = Planner(self.host, self._directory, private, cap)

    def close(self) -> None:
        """Clear away what commands have left. Keep what running commands need until they end."""
        self.janitor.close()

    def ruleset_alone(self, plan: Plan) -> landlock.Ruleset | None:
        """Return what enforces a plan instead of its mounts; None with bubblewrap.

        Raises SandboxUnavailable when nothing less than mounts could.
        """
        return self._ruleset_alone(plan) if self._use_legacy_landlock else None

    def prepare(
        self,
        profile: Profile,
        command: Command,
        *,
        has_proc: bool = True,
        is_traced: bool = False,
        execution_policy: ExecutionPolicy | None = None,
        is_strict: bool = False,
        attempts: PlanAttempts | None = None,
        proxy_ports: Sequence[int] = (),
        bundle: bytes | None = None,
        groundwork: Groundwork | None = None,
    ) -> Confined:
        """Prepare a command. Blocks while it examines files.

        If it `is_traced`, a thread notes what it is refused, from when it is started until it has
        ended. With an `execution_policy` that thread asks about each program that the command executes;
        if that `is_strict`, no process can change the memory of another.
        If its network is proxied, `Confined.listeners` gives a listener for each of the `proxy_ports`,
        and the command finds the `bundle` of whom it trusts at BUNDLE_PATH.
        `groundwork` gets what the sandbox is made from, if bubblewrap makes it.
        Whoever prepares a command again because its sandbox could not be made gives the same
        `attempts`. Raises ProfileRefused when the profile can't be enforced on the files as they
        are, SandboxUnavailable when this host can't enforce it, or trace or intercept under it.
        """
        if not is_enforced(profile):
            return Confined(lambda _: list(command.argv), environment=command.environment, cwd=command.cwd)
        if problem := limit.unenforceable(limits_of(profile), self.host):
            raise SandboxUnavailable(problem.detail, problem.remedy)
        self._require_tracing(is_traced=is_traced, is_intercepted=execution_policy is not None)
        interceptor = None
        if execution_policy is not None:
            interceptor = self._interceptors.choose()
            if interceptor is Interceptor.WRAPPER:
                from paddock.sandbox.enforce.wrapped_command import wrapped

                command = wrapped(command, self._interceptors.shell)
        if self._use_legacy_landlock:
            return self._with_landlock_alone(profile, command)
        if self._needs_filter_alone(profile):
            return self._with_filter_alone(profile, command)
        held = self._held_script(
            profile,
            command,
            attempts or PlanAttempts(),
            has_proc=has_proc,
            is_traced=is_traced,
            is_strict=is_strict,
            groundwork=groundwork,
        )
        return self._assemble(
            held,
            command,
            interceptor,
            is_traced=is_traced,
            execution_policy=execution_policy,
            proxy_ports=proxy_ports,
            bundle=bundle,
        )

    def _require_tracing(self, *, is_traced: bool, is_intercepted: bool) -> None:
        """Raise SandboxUnavailable if the calls of a command can't be watched as it is wanted here."""
        if not is_traced and not is_intercepted:
            return
        from paddock.sandbox.host.tracing import uninterceptable, untraceable

        for is_wanted, problem_of in ((is_traced, untraceable), (is_intercepted, uninterceptable)):
            problem = problem_of(self.host, has_namespaces=self.has_namespaces) if is_wanted else None
            if problem is not None:
                raise SandboxUnavailable(problem.detail, problem.remedy)

    def _with_landlock_alone(self, profile: EnforcedProfile, command: Command) -> Confined:
        """Make a command ready without namespaces: nothing is hidden, only writing is restricted."""
        plan = self.planner.plan(profile, command)
        return self._with_init_alone(plan.limits, plan.network, command, self._ruleset_alone(plan))

    def _ruleset_alone(self, plan: Plan) -> landlock.Ruleset:
        from paddock.sandbox.plan.landlock_alone import ruleset_alone

        return ruleset_alone(plan, self.host.landlock_abi)

    def _with_filter_alone(self, profile: EnforcedProfile, command: Command) -> Confined:
        """Make a command ready without namespaces, where only the network is to be refused."""
        self.planner.admit(profile, command)
        return self._with_init_alone(limits_of(profile), network_mode(profile), command, None)

    def _with_init_alone(
        self,
        limits: Limits,
        network: NetworkMode,
        command: Command,
        ruleset: landlock.Ruleset | None,
    ) -> Confined:
        if not command.argv:
            raise SandboxUnavailable(
                "without namespaces there is no sandbox that others can enter",
                "use bubblewrap, or do it without a sandbox",
            )
        return assemble_init(limits, ruleset, seccomp.program(network, self.host.arch), command)

    def _held_script(
        self,
        profile: EnforcedProfile,
        command: Command,
        attempts: PlanAttempts,
        *,
        has_proc: bool,
        is_traced: bool,
        is_strict: bool,
        groundwork: Groundwork | None,
    ) -> HeldScript:
        """Plan until the files are as planned, and put the plan into words."""
        bubblewrap = self.bubblewrap()
        while True:
            lookups = None if groundwork is None else LookupRecord()
            plan = self.planner.plan(
                profile, command, has_proc=has_proc, is_strict=is_strict, lookups=lookups
            )
            bwrap.refuse_own_program(bubblewrap, plan)
            write = partial(self.script, plan, bubblewrap, command, is_traced=is_traced)
            try:
                held = hold_script(plan, self.janitor, write)
            except (PlaceholderTaken, FileMoved) as error:
                _require_another_plan(attempts, error)
                continue
            if groundwork is not None and lookups is not None:
                groundwork.lookups, groundwork.held = lookups, held
                groundwork.program = None if bubblewrap.is_bundled else bubblewrap.path
                groundwork.is_whole = self.enforcement is Enforcement.FULL
            return held

    def script(
        self,
        plan: Plan,
        bubblewrap: Bubblewrap,
        command: Command,
        *,
        is_traced: bool,
        is_spare: bool = False,
    ) -> Script:
        """Put a plan into words for bubblewrap and the init."""
        files = bwrap.HostFiles(init=str(init.PATH), unreadable=unreadable_file(self._directory))

        def options(part: Plan) -> list[str]:
            return bwrap.options(part, bubblewrap.capabilities, files, has_own_session=self._has_own_session)

        return write_script(plan, self.host, options, command, is_traced=is_traced, is_spare=is_spare)

    def _assemble(
        self,
        held: HeldScript,
        command: Command,
        interceptor: Interceptor | None,
        *,
        is_traced: bool,
        execution_policy: ExecutionPolicy | None,
        proxy_ports: Sequence[int],
        bundle: bytes | None,
    ) -> Confined:
        with contextlib.ExitStack() as undone:
            undone.callback(held.discard)
            plan = held.script.plan
            policy = None if execution_policy is None else execution_policy(plan)
            control, leader = self._leader(undone, policy)
            wrappers = None
            if interceptor is Interceptor.WRAPPER and policy is not None:
                wrappers = self._wrappers(plan, policy, leader)
                undone.callback(wrappers.discard)
                # The tracer, if there is one, has nothing to decide.
                policy = leader = None
            tracer = self._tracer(plan, policy, leader, is_traced=is_traced)
            if tracer is not None:
                undone.callback(tracer.discard)
            groups = self._groups(held.script)
            if groups is not None:
                undone.callback(groups.discard)
            confined = assemble(
                held.script,
                self.bubblewrap(),
                self.enforcement,
                janitor=held.janitor,
                placeholders=held.placeholders,
                mounted=held.mounted,
                locks=held.locks,
                # A command notices by itself if one is taken away; see `Confined.has_lost_placeholders`.
                watched_placeholders=() if command.argv else held.made_placeholders,
                tracer=tracer,
                wrappers=wrappers,
                interceptor=interceptor,
                leader_control=control,
                groups=groups,
                proxy_ports=proxy_ports if held.script.plan.network is NetworkMode.PROXIED else (),
                bundle=bundle,
            )
            undone.pop_all()
        return confined

    @property
    def has_namespaces(self) -> bool:
        """Return whether commands get namespaces of their own here."""
        return not self._use_legacy_landlock and probe.enforcement(self.host) is not None

    def _needs_filter_alone(self, profile: EnforcedProfile) -> bool:
        """Return whether there are no sandboxes, and none is needed: only the network is to be refused."""
        return probe.enforcement(self.host) is None and is_about_network_alone(profile)

    def bubblewrap(self) -> Bubblewrap:
        """Return the program that makes the sandboxes. Raises SandboxUnavailable if there is none."""
        host = self.host
        if host.bwrap is None or probe.enforcement(host) is None:
            problem = host.problems[0] if host.problems else NO_BUBBLEWRAP
            raise SandboxUnavailable(f"{problem.name}: {problem.detail}", problem.remedy)
        return host.bwrap

    def _groups(self, script: Script) -> Groups | None:
        """Make the groups that count, where limits of each process do not; None if none is needed."""
        wanted = (
            (self.host.pids_cgroup, script.counted_processes),
            (self.host.memory_cgroup, script.limits.total_memory_bytes),
        )
        if all(parent is None or most is None for parent, most in wanted):
            return None
        from paddock.sandbox.enforce import cgroup

        processes, memory = (
            None if parent is None or most is None else cgroup.Bound(parent, most) for parent, most in wanted
        )
        return cgroup.make(processes, memory, self.janitor)

    def _leader(
        self, undone: contextlib.ExitStack, policy: ExecPolicy | None
    ) -> tuple[int | None, socket.socket | None]:
        """Return both ends of the socket of a paddock-leader, if something may be let out of the sandbox."""
        if policy is None or not policy.can_escalate:
            return None, None
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control = theirs.detach()
        undone.callback(os.close, control)
        return control, ours

    def _wrappers(self, plan: Plan, policy: ExecPolicy, leader: socket.socket | None) -> WrapperService:
        """Return what answers the wrappers of a command."""
        from paddock.sandbox.enforce.wrapped_command import require_programs

        try:
            require_programs(plan, self._interceptors.shell)
            return self._interceptors.serve_wrappers(policy, leader)
        except BaseException:
            if leader is not None:
                leader.close()
            raise

    def _tracer(
        self, plan: Plan, policy: ExecPolicy | None, leader: socket.socket | None, *, is_traced: bool
    ) -> Tracer | None:
        if not is_traced and policy is None:
            return None
        # Few commands are traced, and it takes a while to load.
        from paddock.sandbox.denial.tracer import trace_plan

        return trace_plan(plan, self.host.arch, is_traced=is_traced, execution_policy=policy, leader=leader)


def _require_another_plan(attempts: PlanAttempts, error: PlaceholderTaken | FileMoved) -> None:
    """Note what has changed since the plan was made. Raises ProfileRefused if that was the last plan."""
    if not attempts.may_plan_again(f"{error} changed"):
        raise ProfileRefused(
            "the sandbox",
            f"was planned {PLAN_LIMIT} times, and each time the files had changed: {attempts.problems}",
            "run the command when nothing changes them",
        ) from error
