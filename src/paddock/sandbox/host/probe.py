"""Finds out what this host can enforce.

It finds a bubblewrap, looks at its options, lets it make one small sandbox, and asks the kernel for Landlock.
The result is a value that names what is missing, with a remedy; the probe decides nothing. Only the trial
tells whether namespaces work: settings and version numbers merely explain a failure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import fields

from paddock import own_program
from paddock.errors import SandboxUnavailable
from paddock.model.host import Bubblewrap, BwrapCapabilities, Enforcement, HostFacts, Problem
from paddock.sandbox.host import bwrap_failure, candidate, cgroup_controller, landlock_abi, limit
from paddock.sandbox.host.candidate import Candidate
from paddock.sandbox.host.kernel import Kernel, Trial
from paddock.sandbox.host.probe_memory import Answer, Key, Memory
from paddock.sandbox.host.syscall_table import MACHINES

NEEDED_OPTIONS: Final = ("perms", "seccomp", "as_pid_1", "args")
"""Without these bubblewrap can't make a mask, or can't hand over what belongs inside. Every other option has
a substitute."""

NEEDED_VERSION: Final = "0.5"
"""The first bubblewrap that has them."""

# Without --die-with-parent, for the reason that `enforce.bwrap.options` gives: a trial ends by itself.
_TRIAL: Final = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-net",
    "--ro-bind",
    "/",
    "/",
)
_MISSING: Final = Problem(
    "bubblewrap",
    "not found on PATH, and none is bundled; nothing can be confined",
    "install it: apt install bubblewrap (or the like), or bundle it: make bwrap",
)
_NO_PROC: Final = Problem(
    "proc",
    "a new /proc can't be mounted here, so confined commands see an empty one",
    f"in a container, unmask /proc: --security-opt systempaths=unconfined ({bwrap_failure.GUIDE})",
)
_OPTION: Final = r"(?m)^\s+(--[a-z0-9-]+)"


class _Search(Struct, frozen=True):
    """The outcome of the search for a bubblewrap."""

    bwrap: Bubblewrap | None = None
    answer: Answer | None = None
    """Set if the bubblewrap made a sandbox."""
    problems: tuple[Problem, ...] = ()


class Probe(Struct):
    """Finds out about one host, and remembers it for as long as it lives."""

    kernel: Kernel = field(default_factory=Kernel)
    memory: Memory = field(default_factory=Memory)
    bundled: str = candidate.BUNDLED

    def host(self, search_path: str, *workspaces: str) -> HostFacts:
        """Return the facts, for commands that work in these directories.

        Takes milliseconds if this bubblewrap is remembered, and two trial starts otherwise. A bundled
        bubblewrap comes with an open descriptor, which the caller owns.
        """
        kernel = _version(self.kernel.release())
        is_wsl1 = self._is_wsl1()
        # Other systems have no namespaces, so there is nothing to try.
        search = _Search() if is_wsl1 else self._search(search_path, workspaces)
        answer = search.answer
        abi = self._landlock_abi(answer)
        counts = limit.can_count_processes(kernel, self.kernel.user())
        pids_cgroup = None if counts else cgroup_controller.directory(self.kernel, "pids")
        return HostFacts(
            arch=self.kernel.machine(),
            kernel=kernel,
            bwrap=search.bwrap,
            can_unshare=answer is not None,
            can_mount_proc=answer is not None and answer.can_mount_proc,
            can_limit_processes=counts or pids_cgroup is not None,
            pids_cgroup=pids_cgroup,
            memory_cgroup=cgroup_controller.directory(self.kernel, "memory"),
            landlock_abi=abi,
            problems=(*search.problems, *self._kernel_problems(abi, is_wsl1)),
        )

    def _landlock_abi(self, answer: Answer | None) -> int:
        # Asking takes milliseconds, to load ctypes. If the kernel now has less than remembered, the init
        # fails to confine the command, and nothing runs.
        if answer is not None and answer.landlock_abi >= landlock_abi.COMPLETE_ABI:
            return answer.landlock_abi
        return self.kernel.landlock_abi()

    def _is_wsl1(self) -> bool:
        version = (self.kernel.text("/proc/version") or "").lower()
        if "wsl" in version and (told := re.search(r"wsl(\d+)", version)):
            return told[1] == "1"
        return "microsoft" in version and "microsoft-standard" not in version

    def _kernel_problems(self, abi: int, is_wsl1: bool) -> Iterator[Problem]:
        if is_wsl1:
            yield Problem("WSL1", "it has no namespaces, so nothing can be confined", "use WSL2")
        machine = self.kernel.machine()
        if machine not in MACHINES:
            detail = f"there is no filter for the machine {machine}"
            yield Problem("seccomp", detail, f"use one of {', '.join(MACHINES)}")
        if gaps := landlock_abi.missing_from(abi):
            detail = (
                f"ABI {abi} lacks {', '.join(gaps)}"
                if abi
                else "the kernel does not have it, or it is not switched on"
            )
            yield Problem(
                "landlock",
                f"{detail}; the second layer is {'weaker' if abi >= landlock_abi.NEEDED_ABI else 'missing'}",
                "use Linux 6.12 or newer" if abi else "boot Linux 5.19 or newer with landlock in lsm=",
            )

    # --- bubblewrap ---------------------------------------------------------

    def _search(self, search_path: str, workspaces: Sequence[str]) -> _Search:
        """Return the first bubblewrap that has what is needed: the system's, ours, or another on PATH."""
        passed_over: list[Problem] = []
        for found in self._candidates(search_path, workspaces, passed_over):
            key = self._key(found)
            answer = self.memory.recall(key) if key is not None else None
            if answer is not None:
                return _works(found, answer)
            capabilities = self._capabilities(found)
            if lacking := [name for name in NEEDED_OPTIONS if not getattr(capabilities, name)]:
                passed_over.append(_too_old(found, lacking))
                _close(found)
                continue
            return self._try(found, key, capabilities)
        return _Search(problems=tuple(passed_over) or (_MISSING,))

    def _candidates(
        self, search_path: str, workspaces: Sequence[str], passed_over: list[Problem]
    ) -> Iterator[Candidate]:
        found = own_program.find(candidate.PROGRAM, search_path)
        yield from candidate.outside(found.system, workspaces)
        try:
            bundled = candidate.bundled(self.bundled)
        except SandboxUnavailable as error:
            passed_over.append(Problem("bubblewrap", error.problem, error.remedy))
            bundled = None
        if bundled is not None:
            yield bundled
        # These come last, because an earlier command may have made one of them.
        yield from candidate.outside(found.others, workspaces)
        passed_over += map(_untrusted, found.passed_over)

    def _key(self, found: Candidate) -> Key | None:
        boot = self.kernel.text("/proc/sys/kernel/random/boot_id")
        if boot is None:
            return None
        return Key(
            path=found.path,
            inode=found.inode,
            modified_ns=found.modified_ns,
            user=self.kernel.user(),
            boot=boot,
            filters=self._filters(),
        )

    def _filters(self) -> str:
        """Return this process's filters of system calls, which may refuse Landlock or namespaces."""
        lines = (self.kernel.text("/proc/self/status") or "").splitlines()
        return " ".join(line for line in lines if line.startswith("Seccomp"))

    def _capabilities(self, found: Candidate) -> BwrapCapabilities:
        told = self._run(found, ["--help"])
        # Some versions write it to stderr.
        options = set(re.findall(_OPTION, told.stdout + told.stderr))
        return BwrapCapabilities(
            **{known.name: _option(known.name) in options for known in fields(BwrapCapabilities)}
        )

    def _try(self, found: Candidate, key: Key | None, capabilities: BwrapCapabilities) -> _Search:
        # The trial runs bubblewrap's own `--version` inside: no other program is certain to exist.
        inside = ["--", found.command, "--version"]
        tried = self._run(found, [*_TRIAL, "--proc", "/proc", *inside])
        can_mount_proc = tried.is_success
        if not can_mount_proc:
            # The wording of this failure depends on the version, so the trials are compared.
            tried = self._run(found, [*_TRIAL, *inside])
        told = tried if tried.is_success else self._run(found, ["--version"])
        answer = Answer(
            version=told.stdout.strip().removeprefix("bubblewrap "),
            capabilities=capabilities,
            can_mount_proc=can_mount_proc,
            landlock_abi=self.kernel.landlock_abi(),
        )
        if not tried.is_success:
            problem = bwrap_failure.explain_namespaces(tried.stderr, self.kernel.text, self.kernel.exists)
            return _Search(_bubblewrap(found, answer), problems=(problem,))
        if key is not None:
            self.memory.keep(key, answer)
        return _works(found, answer)

    def _run(self, found: Candidate, arguments: Iterable[str]) -> Trial:
        return self.kernel.run([found.command, *arguments], (found.fd,))


def host(
    search_path: str | None = None,
    workspaces: Sequence[str] | None = None,
    *,
    memory_directory: str | os.PathLike[str] | None = None,
) -> HostFacts:
    """Return the facts about this host, by default for the PATH and the working directory of this process.

    With `memory_directory`, which must be hidden from every command, the next process recalls what was found.
    """
    return Probe(memory=Memory(memory_directory)).host(
        own_program.search_path() if search_path is None else search_path,
        *([_current_directory()] if workspaces is None else workspaces),
    )


def enforcement(facts: HostFacts) -> Enforcement | None:
    """Return the level that a confined command reaches here, or None if it would be refused."""
    if facts.bwrap is None or not facts.can_unshare or facts.arch not in MACHINES:
        return None
    return Enforcement.PARTIAL if landlock_abi.missing_from(facts.landlock_abi) else Enforcement.FULL


def _current_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        # It was removed, so nothing can be in it.
        return "/"


def _works(found: Candidate, answer: Answer) -> _Search:
    return _Search(_bubblewrap(found, answer), answer, () if answer.can_mount_proc else (_NO_PROC,))


def _bubblewrap(found: Candidate, answer: Answer) -> Bubblewrap:
    return Bubblewrap(
        path=found.path,
        capabilities=answer.capabilities,
        version=answer.version,
        is_bundled=found.is_bundled,
        is_setuid=found.is_setuid,
        fd=found.fd,
    )


def _too_old(found: Candidate, lacking: Iterable[str]) -> Problem:
    options = " and ".join(_option(name) for name in lacking)
    return Problem(
        "bubblewrap",
        f"{found.path} is passed over, because it has no {options}",
        f"install {NEEDED_VERSION} or newer, or bundle one: make bwrap",
    )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _untrusted(told: str) -> Problem:
    return Problem(
        "bubblewrap",
        f"passed over {told}",
        "give it and all directories above it to root or yourself, and let nobody else write to them",
    )


def _close(found: Candidate) -> None:
    if found.is_bundled:
        os.close(found.fd)


def _version(release: str) -> tuple[int, int]:
    major, _, rest = release.partition(".")
    minor = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return (int(major), int(minor)) if major.isdecimal() and minor else (0, 0)
