"""Examines what this host can enforce, mechanism by mechanism, and the level that comes of it.

The probe has found the facts; here they become findings. A sandbox that can't be had is
a warning: paddock runs without one, and refuses whatever asks for it.
"""

from __future__ import annotations

import os
from pathlib import Path

from paddock.cli.finding import Finding, Level
from paddock.cli.spare_diagnosis import check_spares
from paddock.errors import ListenError, SandboxUnavailable
from paddock.model.host import Bubblewrap, Enforcement, HostFacts, Problem
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.janitor import JOURNALS, Janitor, PlaceholderTaken, locate
from paddock.sandbox.enforce.leftover import leftovers
from paddock.sandbox.host import landlock_abi, limit, probe
from paddock.sandbox.host.bwrap_failure import GUIDE, NAMESPACES
from paddock.sandbox.host.kernel import Kernel
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from paddock.sandbox.host.propagation import receives_mounts
from paddock.sandbox.interception import Availability, Interceptors
from paddock.transport import runtime_directory


def examine() -> list[Finding]:
    """Return every finding about sandboxes; the last one is the sum of them."""
    # Nothing is cached: the user may have changed something just now.
    facts = probe.host()
    return findings_of(
        facts,
        check_init(Kernel()),
        check_janitor(_runtime_directories()),
        check_spares(facts),
        interception_finding(Interceptors(facts).availability()),
    )


def findings_of(
    facts: HostFacts,
    init_finding: Finding,
    janitor_finding: Finding,
    spares_finding: Finding,
    interception: Finding,
) -> list[Finding]:
    """Return the findings about given facts."""
    return [
        _bubblewrap(facts),
        _namespaces(facts),
        _seccomp(facts),
        _landlock(facts),
        init_finding,
        janitor_finding,
        spares_finding,
        _limits(facts),
        interception,
        _sum(facts, has_init=init_finding.level is Level.OK),
    ]


def check_init(kernel: Kernel) -> Finding:
    """Check whether the first process of every sandbox is there and runs, with its own mounts if need be."""
    command = [str(init.PATH), "--", "true"]
    tried = kernel.run(command)
    # It has run also when there is no such program as `true`.
    if tried.status in (0, init.NOT_FOUND_STATUS):
        if not receives_mounts():
            return Finding("init", Level.OK, f"{init.PATH} runs")
        tried = kernel.run([str(init.PATH), *init.bubblewrap_words(has_own_mounts=True), "--", *command])
        if tried.status in (0, init.NOT_FOUND_STATUS):
            return Finding("init", Level.OK, f"{init.PATH} runs, and has mounts apart from the host's")
        detail = f"{init.PATH}: {tried.stderr.strip() or f'status {tried.status}'}"
        return Finding("init", Level.WARN, detail, f"let it make user namespaces, as bwrap ({GUIDE})")
    detail = f"{init.PATH}: {tried.stderr.strip() or f'status {tried.status}'}"
    return Finding("init", Level.WARN, detail, "build it: make native, or install paddock again")


def check_janitor(directories: list[str]) -> Finding:
    """Check whether placeholders can be held, by holding one in the first directory that can be used.

    It reports what killed janitors have left; by then this one has begun to clear it away.
    """
    try:
        directory = Path(runtime_directory.provide(directories, os.getuid()))
    except ListenError:
        return Finding(
            "janitor", Level.WARN, "can't be tried without a private directory", "see runtime directory"
        )
    left = leftovers(directory)
    placeholder = Placeholder(str(directory / f"trial-{os.getpid()}"), PlaceholderKind.DIRECTORY)
    janitor = Janitor(directory)
    try:
        located = locate([placeholder])
        janitor.hold(located)
        has_journal = any((directory / JOURNALS).iterdir())
        janitor.release(located, was_killed=False)
    except SandboxUnavailable as error:
        return Finding("janitor", Level.WARN, error.problem, error.remedy)
    except (PlaceholderTaken, OSError) as error:
        return Finding("janitor", Level.WARN, f"{directory} can't be used: {error}", "remove what is in it")
    finally:
        janitor.close()
    if not has_journal:
        detail = f"no journal can be written in {directory}, so what a killed command leaves stays"
        return Finding("janitor", Level.WARN, detail, "make room, or make it writable")
    if left:
        detail = f"left behind by killed commands, and being cleared away now: {', '.join(left)}"
        return Finding(
            "janitor", Level.WARN, detail, "run this again, and remove by hand what it still reports"
        )
    return Finding("janitor", Level.OK, f"runs, with its journals in {directory}, and nothing is left behind")


def interception_finding(available: Availability) -> Finding:
    """Say which back end decides on executed programs, and why it is not the one that sees most."""
    name = "interception"
    if available.notify is None:
        return Finding(name, Level.OK, "notify: the kernel asks about everything that a command executes")
    reason = f"notify is not available: {available.notify.detail}"
    if available.wrapper is None:
        detail = f"wrapper: only commands of Bash, and only what Bash itself executes; {reason}"
        return Finding(name, Level.WARN, detail, available.notify.remedy)
    detail = f"none: {reason}; nor can the wrapper: {available.wrapper.detail}"
    return Finding(name, Level.WARN, detail, available.wrapper.remedy)


def _runtime_directories() -> list[str]:
    return runtime_directory.candidates(os.environ, os.getuid())


def _bubblewrap(facts: HostFacts) -> Finding:
    name = "bubblewrap"
    if facts.bwrap is not None:
        return Finding(name, Level.OK, _described(facts.bwrap))
    if problem := _problem(facts, name):
        return _warning(problem)
    return Finding(name, Level.WARN, "not looked for on WSL1", "use WSL2")


def _described(bwrap: Bubblewrap) -> str:
    notes = [note for note, holds in (("bundled", bwrap.is_bundled), ("setuid", bwrap.is_setuid)) if holds]
    return f"{bwrap.version or 'of unknown version'} ({', '.join([bwrap.path, *notes])})"


def _namespaces(facts: HostFacts) -> Finding:
    if problem := _problem(facts, "WSL1", NAMESPACES, "proc"):
        return _warning(problem, NAMESPACES)
    if not facts.can_unshare:
        return Finding(NAMESPACES, Level.WARN, "can't be tried without bubblewrap", "see bubblewrap")
    return Finding(NAMESPACES, Level.OK, "user, pid, ipc and network namespaces and a new /proc can be made")


def _seccomp(facts: HostFacts) -> Finding:
    if problem := _problem(facts, "seccomp"):
        return _warning(problem)
    return Finding("seccomp", Level.OK, f"there is a filter for {facts.arch}")


def _landlock(facts: HostFacts) -> Finding:
    if problem := _problem(facts, "landlock"):
        return _warning(problem)
    return Finding("landlock", Level.OK, f"ABI {facts.landlock_abi}, {landlock_abi.COMPLETE_ABI} is enough")


def _limits(facts: HostFacts) -> Finding:
    if not facts.can_limit_processes:
        return _warning(limit.processes_problem(facts))
    each = "address space, processor time, processes, file size, open files, time"
    if facts.memory_cgroup is None:
        return Finding("limits", Level.OK, f"{each}; not totalMemoryBytes, which takes a control group")
    return Finding("limits", Level.OK, f"total memory, {each}")


def _sum(facts: HostFacts, *, has_init: bool) -> Finding:
    level = probe.enforcement(facts) if has_init else None
    match level:
        case Enforcement.FULL:
            return Finding(
                "sandbox",
                Level.OK,
                "full: everything in a profile is enforced, and Landlock backs up the mounts",
            )
        case Enforcement.PARTIAL:
            return Finding(
                "sandbox",
                Level.WARN,
                "partial: everything in a profile is enforced, but less backs up the mounts",
                "see landlock",
            )
        case _:
            return Finding(
                "sandbox",
                Level.WARN,
                "none: commands that ask for a sandbox are refused",
                "see what is not ok above",
            )


def _problem(facts: HostFacts, *names: str) -> Problem | None:
    return next((problem for problem in facts.problems if problem.name in names), None)


def _warning(problem: Problem, name: str | None = None) -> Finding:
    return Finding(name or problem.name, Level.WARN, problem.detail, problem.remedy)
