"""Examines what this host offers, one thing at a time.

Each check tries the thing itself where that is harmless, rather than reasoning from version numbers. None of
them raises: a check that can't find out reports that as a finding. Sandboxes have a module of their own.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import resource
import signal
import sys
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Final

from paddock.cli.finding import Finding, Level
from paddock.cli.survey import survey
from paddock.errors import ListenError, PaddockError, RulesError, RulesUnavailable
from paddock.fs import namespace_entry
from paddock.process.group import PIDFD_SIGNAL_PROCESS_GROUP
from paddock.process.spawner import HELPER_PATH, Spawner
from paddock.rules.evaluation import RulesFile
from paddock.rules.layer import standard_layers
from paddock.rules.loader import evaluate_files, load_layers
from paddock.rules.script import parse_script
from paddock.transport import runtime_directory

CLIENT_NAME: Final = "paddock-doctor"
PROBE_TIMEOUT_S: Final = 10.0
LEAST_PYTHON: Final = (3, 11)
DESCRIPTORS_PER_PROCESS: Final = 4
COMFORTABLE_DESCRIPTORS: Final = 4096
"""A thousand processes at once, with four descriptors each."""

COMPILED_MODULES: Final = (
    "paddock.transport._frames",
    "paddock.protocol._scanner",
    "paddock.fs._status",
    "paddock.sandbox.host._linkless",
)

PR_GET_CHILD_SUBREAPER: Final = 37
"""prctl(2), Linux 3.4."""


def examine() -> list[Finding]:
    """Return every finding, in the order in which things depend on each other."""
    checks: tuple[Callable[[], Finding], ...] = (
        check_python,
        check_platform,
        check_proc,
        check_pidfd,
        check_group_signals,
        check_subreaper,
        check_spawner,
        check_modules,
        check_worker_library,
        check_uvloop,
        check_rules,
        check_descriptors,
        check_runtime_directory,
        check_servers,
    )
    return [check() for check in checks]


# --- the interpreter and the kernel -----------------------------------------


def check_python() -> Finding:
    """Check the version of Python."""
    detail = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < LEAST_PYTHON:
        return Finding("python", Level.FAIL, detail, "install Python 3.11 or newer")
    return Finding("python", Level.OK, detail)


def check_platform() -> Finding:
    """Check the kernel and the machine."""
    detail = f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform != "linux":
        return Finding("platform", Level.FAIL, detail, "run paddock on Linux")
    return Finding("platform", Level.OK, detail)


def check_proc() -> Finding:
    """Check whether /proc is there: it is how daemons are found that left their session."""
    if Path("/proc/self/stat").exists():
        return Finding("proc", Level.OK, "/proc is mounted")
    return Finding(
        "proc",
        Level.WARN,
        "/proc is not mounted, so daemons that left their session outlive the server",
        "mount it: mount -t proc proc /proc",
    )


def check_pidfd() -> Finding:
    """Check whether processes can be named without mistaking one for another."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding(
            "pidfd", Level.FAIL, f"pidfd_open: {error.strerror}", "use Linux 5.3 or newer, or allow the call"
        )
    return Finding("pidfd", Level.OK, "pidfd_open works")


def check_group_signals() -> Finding:
    """Check whether a signal to a group can't hit a stranger."""
    name = "group signals"
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError as error:
        return Finding(name, Level.WARN, f"pidfd_open: {error.strerror}", "see pidfd")
    try:
        signal.pidfd_send_signal(pidfd, 0, None, PIDFD_SIGNAL_PROCESS_GROUP)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return Finding(
                name,
                Level.WARN,
                "PIDFD_SIGNAL_PROCESS_GROUP is not there, so groups are signalled by number",
                "use Linux 6.9 or newer; without it, only a guard against pid reuse is missing",
            )
        # The call is known; that this process does not lead a group is no matter.
    finally:
        os.close(pidfd)
    return Finding(name, Level.OK, "PIDFD_SIGNAL_PROCESS_GROUP works")


def check_subreaper() -> Finding:
    """Check whether orphans come back to the spawner, which ends them."""
    value = ctypes.c_int(0)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0):
        reason = os.strerror(ctypes.get_errno())
        return Finding("subreaper", Level.FAIL, f"PR_GET_CHILD_SUBREAPER: {reason}", "use Linux 3.4 or newer")
    return Finding("subreaper", Level.OK, "PR_SET_CHILD_SUBREAPER is there")


# --- what paddock is made of ------------------------------------------------


def check_spawner() -> Finding:
    """Check whether the helper that starts every process is there and runs."""
    try:
        asyncio.run(_start_spawner())
    except (PaddockError, OSError) as error:
        return Finding("spawner", Level.FAIL, str(error), "build it: make native, or install paddock again")
    except TimeoutError:
        return Finding("spawner", Level.FAIL, f"{HELPER_PATH} does not answer", "build it again: make native")
    return Finding("spawner", Level.OK, f"{HELPER_PATH} runs")


async def _start_spawner() -> None:
    async with asyncio.timeout(PROBE_TIMEOUT_S):
        spawner = await Spawner.start(lambda: None)
    await spawner.aclose()


def check_modules() -> Finding:
    """Check whether the modules are there that only make the server faster."""
    for name in COMPILED_MODULES:
        try:
            import_module(name)
        except ImportError as error:
            return Finding(
                "modules",
                Level.WARN,
                f"{error}, so the server takes longer for each request",
                "install Python's headers (python3-dev), then: make native, or install paddock again",
            )
    return Finding("modules", Level.OK, "the compiled ones are there")


def check_worker_library() -> Finding:
    """Check whether file workers can be confined."""
    try:
        namespace_entry.load(str(namespace_entry.LIBRARY))
    except (OSError, AttributeError) as error:
        detail = f"{error}, so file operations under a profile are refused"
        return Finding("file workers", Level.WARN, detail, namespace_entry.REMEDY)
    return Finding("file workers", Level.OK, f"{namespace_entry.LIBRARY} can be loaded")


def check_uvloop() -> Finding:
    """Check whether the event loop of the server is there."""
    try:
        import uvloop  # noqa: F401
    except ImportError as error:
        return Finding("uvloop", Level.FAIL, str(error), "install it: pip install uvloop")
    return Finding("uvloop", Level.OK, metadata.version("uvloop"))


def check_rules() -> Finding:
    """Check whether rules can be evaluated and scripts taken apart, and whether this user's rules load."""
    try:
        # With a file of our own, for without any the interpreter is not asked for.
        evaluate_files([RulesFile(path="doctor.rules", text="")])
        parse_script("true")
        policy = load_layers(standard_layers())
    except RulesUnavailable as error:
        return Finding("rules", Level.WARN, str(error), "install them: pip install 'paddock-exec[rules]'")
    except RulesError as error:
        return Finding("rules", Level.WARN, str(error), "try paddock rules check, which says more")
    detail = f"{len(policy.rules)} in force"
    if policy.problems:
        broken = "; ".join(map(str, policy.problems))
        remedy = "mend them: until then, whatever no other rule decides needs approval"
        return Finding("rules", Level.WARN, f"{detail}, and not in force: {broken}", remedy)
    return Finding("rules", Level.OK, detail)


# --- limits -----------------------------------------------------------------


def check_descriptors() -> Finding:
    """Check how many processes the descriptors suffice for.

    A server raises the soft limit to the hard one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return Finding("descriptors", Level.OK, f"limit {soft}, hard limit infinite")
    detail = f"limit {soft}, hard limit {hard}: about {hard // DESCRIPTORS_PER_PROCESS} processes at once"
    if hard < COMFORTABLE_DESCRIPTORS:
        remedy = f"raise the hard limit of open files to {COMFORTABLE_DESCRIPTORS} or more (limits.conf(5))"
        return Finding("descriptors", Level.WARN, detail, remedy)
    return Finding("descriptors", Level.OK, detail)


# --- servers ----------------------------------------------------------------


def check_runtime_directory() -> Finding:
    """Check whether servers and operators can meet."""
    uid = os.geteuid()
    try:
        directory = runtime_directory.provide(runtime_directory.candidates(os.environ, uid), uid)
    except ListenError as error:
        remedy = "make one of them yours alone (owner you, mode 0700), or set XDG_RUNTIME_DIR"
        return Finding("runtime directory", Level.FAIL, error.reason, remedy)
    return Finding("runtime directory", Level.OK, str(directory))


def check_servers() -> Finding:
    """List the servers of this user."""
    found = asyncio.run(survey(None, CLIENT_NAME))
    servers = [answer.status.server for answer in found.answers]
    told = ", ".join(f"{server.pid} ({server.url})" for server in servers) or "none running"
    if found.problems:
        remedy = "look at its log, or end it"
        return Finding("servers", Level.WARN, "; ".join([told, *found.problems]), remedy)
    return Finding("servers", Level.OK, told)
