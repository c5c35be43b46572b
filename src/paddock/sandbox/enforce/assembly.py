"""Assembles the arguments and descriptors that bubblewrap and paddock-init start with.

A `Script` holds what follows from the plan alone; Paddock writes it while the janitor makes the plan's
placeholders. `assemble` adds what belongs to one start: pipes, files in memory, locks and mounts. This module
never decides what a command may do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from paddock import own_program
from paddock.errors import ProfileRefused
from paddock.model.host import Bubblewrap, Enforcement, HostFacts
from paddock.model.interceptor import Interceptor
from paddock.model.network_secret import BUNDLE_PATH
from paddock.model.profile import Access, Limits
from paddock.model.restriction import Restriction
from paddock.native_program import native_path
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.confined import Confined, Readers
from paddock.sandbox.enforce.janitor import Janitor
from paddock.sandbox.enforce.recipe import Opened, Recipe, strings, told_of
from paddock.sandbox.enforce.service import Tracing, WrapperService
from paddock.sandbox.enforce.wrapped_command import SOCKET_NUMBER
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import LocatedPlaceholder
from paddock.sandbox.host.propagation import receives_mounts
from paddock.sandbox.plan import landlock, seccomp
from paddock.sandbox.plan.early_mount import split
from paddock.sandbox.plan.mount import Devices
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.plan.view import INIT
from paddock.sandbox.profile.path import ROOT, is_within

if TYPE_CHECKING:
    from paddock.sandbox.enforce.cgroup import Groups

LEADER: Final = native_path("paddock-leader")
"""Leads the session of a command whose programs may be let out of the sandbox."""


class Script(Struct, frozen=True):
    """The arguments by which bubblewrap and paddock-init carry out a plan, except for descriptor numbers."""

    plan: Plan
    recipe: Recipe
    """What follows from the plan alone."""
    told: Sequence[str]
    """For paddock-init besides, with the command at its end."""
    limits: Limits
    """How much the command may use."""
    restriction: Restriction | None
    """Restriction that a process applies to itself on entry; None if the sandbox is not kept for others."""
    counted_processes: int | None
    """Limit of processes in a control group that must be made for them; None if none is needed."""


def write_script(
    plan: Plan,
    host: HostFacts,
    options: Callable[[Plan], Sequence[str]],
    command: Command,
    *,
    is_traced: bool = False,
    is_spare: bool = False,
) -> Script:
    """Write a plan as a script. `options` returns bubblewrap's options for a plan.

    If the `command` has no arguments, the sandbox stays open: for others to enter, or as a spare for a later
    command.
    """
    # The limits are for a command, not for a sandbox that is kept open.
    limits = plan.limits if command.argv else Limits()
    counted = None if host.pids_cgroup is None else limits.processes
    writable = [rule.path for rule in plan.rules if rule.access is Access.WRITE]
    ruleset = landlock.second_layer(writable, plan.network, host.landlock_abi)
    # Devices and read-only paths always need such mounts.
    has_own_mounts = plan.has_ready_devices or bool(plan.read_only)
    needs_own_mounts = not has_own_mounts and receives_mounts()
    said = init.words(
        limits=limits if counted is None else msgspec.structs.replace(limits, processes=None),
        ruleset=ruleset,
        # For a sandbox that is kept open, the code that lets others enter checks this first.
        masks=plan.masks if command.argv or is_spare else (),
        placeholders=plan.shown_placeholders,
        holds=not command.argv,
        # Mounts of its own are made so, and that fails or holds. Those of the host were only looked at.
        is_isolated=plan.has_proc and not has_own_mounts and not needs_own_mounts,
    )
    program = seccomp.program(plan.network, host.arch)
    if command.argv:
        told = told_of(command.argv, command.environment, plan.cwd, command.arg0)
    else:
        told = ["--"]
    early, left = split(plan.mounts)
    all_options = strings(options(plan))
    recipe = Recipe(
        options=strings(options(replace(plan, mounts=tuple(left)))) if early else all_options,
        all_options=all_options,
        early=strings([f"{'w' if mount.is_writable else 'r'}{mount.path}" for mount in early]),
        filter=seccomp.remainder(host.arch) if is_traced else program,
        said=said,
        needs_own_mounts=needs_own_mounts,
        has_ready_devices=plan.has_ready_devices,
        read_only=plan.read_only,
        path_of_init=None if plan.has_proc else INIT,
    )
    return Script(
        plan=plan,
        recipe=recipe,
        told=told,
        limits=limits,
        restriction=None if command.argv else Restriction(words=strings([*said, *told]), filter=program),
        counted_processes=counted,
    )


def assemble(
    script: Script,
    bubblewrap: Bubblewrap,
    enforcement: Enforcement,
    *,
    janitor: Janitor,
    placeholders: Sequence[LocatedPlaceholder],
    mounted: Iterable[MountedFile],
    locks: Iterable[int],
    watched_placeholders: Sequence[MountedFile] = (),
    tracer: Tracing | None = None,
    wrappers: WrapperService | None = None,
    interceptor: Interceptor | None = None,
    leader_control: int | None = None,
    groups: Groups | None = None,
    proxy_ports: Sequence[int] = (),
    bundle: bytes | None = None,
    waiting: int | None = None,
) -> Confined:
    """Return a command that is ready to start and reaches the level `enforcement`.

    `mounted` lists the files that its mounts must show. The command takes ownership of the `placeholders`
    that `janitor` holds, their `locks`, the tracer, the service for `wrappers`, the groups, the socket
    `waiting` of a spare sandbox, and `leader_control`, the socket of the paddock-leader for its session.
    Others look after `watched_placeholders`. Inside the sandbox the init listens on the `proxy_ports` for a
    proxy outside. The command finds the certificate `bundle` at BUNDLE_PATH; a spare sandbox gets it later,
    through `waiting`.
    """
    if bundle is not None:
        _require_own_devices(script.plan)
    listeners = None
    with Opened() as opened:
        files, readers = script.recipe.files(opened, bubblewrap.fd, script.told, mounted)
        if bundle is not None:
            files["bundle"] = opened.memory("bundle", bundle)
        if proxy_ports:
            listeners, files["listeners"] = opened.pair()
        if leader_control is not None:
            files["leader"] = opened.own(os.dup(own_program.opened(LEADER)))
            files["control"] = leader_control
        if tracer is not None:
            files["trace"] = tracer.file
        if wrappers is not None:
            files["wrappers"] = wrappers.file
        if groups is not None:
            files |= groups.entrances
        if waiting is not None:
            files["waiting"] = waiting
        opened.pop_all()

    def words(numbers: Sequence[int]) -> list[str]:
        # The locks come after the named descriptors; nobody needs to know their numbers.
        return _words(bubblewrap, script, dict(zip(files, numbers, strict=False)), proxy_ports)

    return Confined(
        words,
        [*files.values(), *locks],
        enforcement=enforcement,
        plan=script.plan,
        limits=script.limits,
        janitor=janitor,
        placeholders=placeholders,
        readers=Readers(*readers, listeners),
        tracer=tracer,
        wrappers=wrappers,
        interceptor=interceptor,
        groups=groups,
        restriction=script.restriction,
        watched_placeholders=watched_placeholders,
    )


def assemble_taken(
    plan: Plan,
    enforcement: Enforcement,
    command: Command,
    *,
    janitor: Janitor,
    placeholders: Sequence[LocatedPlaceholder],
    mounted: Iterable[MountedFile],
    report: int,
) -> Confined:
    """Return a command for a spare sandbox that was made for the same plan, as one file for its init.

    The command takes ownership of the `placeholders` that `janitor` holds, and of `report`, on which the
    sandbox reports.
    """
    said = init.words(
        limits=plan.limits,
        argv0=command.arg0,
        environment={**command.environment, "PWD": plan.cwd},
        cwd=plan.cwd,
        mounted=mounted,
        masks=plan.masks,
        placeholders=plan.shown_placeholders,
    )
    told = strings([*said, "--", *command.argv])
    with Opened() as opened:
        file = opened.memory("command", told)
        opened.pop_all()
    return Confined(
        lambda _: list(command.argv),
        [file],
        enforcement=enforcement,
        plan=plan,
        limits=plan.limits,
        janitor=janitor,
        placeholders=placeholders,
        readers=Readers(report),
    )


def assemble_init(
    limits: Limits, ruleset: landlock.Ruleset | None, filter_: bytes, command: Command
) -> Confined:
    """Return a command that paddock-init confines without bubblewrap."""
    said = init.words(
        limits=limits,
        ruleset=ruleset,
        argv0=command.arg0,
        environment=command.environment,
        cwd=command.cwd,
    )
    told = strings([*said, "--", *command.argv])
    with Opened() as opened:
        report_reader, report_writer = opened.pipe()
        files = {
            "filter": opened.memory("filter", filter_),
            "report": report_writer,
            "more": opened.memory("command", told),
            "init": opened.own(os.dup(own_program.opened(init.PATH))),
        }
        opened.pop_all()

    def words(numbers: Sequence[int]) -> list[str]:
        at = dict(zip(files, numbers, strict=True))
        said = init.descriptor_words(filter_fd=at["filter"], report_fd=at["report"], more_fd=at["more"])
        return [f"/proc/self/fd/{at['init']}", *said]

    readers = Readers(report_reader)
    return Confined(
        words, tuple(files.values()), enforcement=Enforcement.PARTIAL, limits=limits, readers=readers
    )


def _words(
    bubblewrap: Bubblewrap, script: Script, at: Mapping[str, int], proxy_ports: Sequence[int]
) -> list[str]:
    """Return the arguments for bubblewrap; `at` maps each descriptor's name to its number."""
    return script.recipe.argv(
        bubblewrap.path,
        at,
        before=(f"/proc/self/fd/{at['leader']}", f"control={at['control']}", "--") if "leader" in at else (),
        # Nobody can change it: it is mounted read-only, and a mount point can't be removed or moved.
        options=("--perms", "0444", "--ro-bind-data", str(at["bundle"]), BUNDLE_PATH)
        if "bundle" in at
        else (),
        descriptors=init.descriptor_words(
            trace_fd=at.get("trace"),
            kept_fd=(at["wrappers"], SOCKET_NUMBER) if "wrappers" in at else None,
            report_fd=at["report"],
            listening=(at["listeners"], proxy_ports) if proxy_ports else None,
            cgroup_fd=at.get("group"),
            wait_fd=at.get("waiting"),
            memory_fd=at.get("memory group"),
            more_fd=at["more"],
        ),
    )


def _require_own_devices(plan: Plan) -> None:
    """Refuse a plan whose /dev is not the sandbox's own: the bundle would be created on the host."""
    for mount in plan.mounts:
        if is_within(BUNDLE_PATH, mount.path) and mount.path != ROOT and not isinstance(mount, Devices):
            raise ProfileRefused(
                f"a secret for an https host, and what the profile says about {mount.path}",
                f"contradict each other: the command must find the certificates to trust at {BUNDLE_PATH}",
                f"leave {mount.path} out of the profile",
            )
