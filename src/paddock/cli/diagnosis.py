"""What this host offers, looked at one thing at a time.

Each check tries the thing itself where that is harmless, rather than to reason from
version numbers. None of them raises: what can't be found out is a finding too.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Final

from paddock.cli.survey import survey
from paddock.errors import ListenError, PaddockError
from paddock.process.group import PIDFD_SIGNAL_PROCESS_GROUP
from paddock.process.spawner import HELPER_PATH, Spawner
from paddock.transport import runtime_directory

CLIENT_NAME: Final = "paddock-doctor"
PROBE_TIMEOUT_S: Final = 10.0
LEAST_PYTHON: Final = (3, 11)
DESCRIPTORS_PER_PROCESS: Final = 4
COMFORTABLE_DESCRIPTORS: Final = 4096
"""A thousand processes at once, with four descriptors each."""

PR_GET_CHILD_SUBREAPER: Final = 37
"""prctl(2), Linux 3.4."""


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing, how it is, and the way out if it is not as it should be."""

    name: str
    level: Level
    detail: str
    remedy: str | None = None


def examine() -> list[Finding]:
    """Every finding, in the order in which things depend on each other."""
    checks: tuple[Callable[[], Finding], ...] = (
        check_python,
        check_platform,
        check_proc,
        check_pidfd,
        check_group_signals,
        check_subreaper,
        check_spawner,
        check_uvloop,
        check_descriptors,
        check_bubblewrap,
        check_user_namespaces,
        check_runtime_directory,
        check_servers,
    )
    return [check() for check in checks]


# --- the interpreter and the kernel -----------------------------------------


def check_python() -> Finding:
    """The version of Python."""
    detail = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < LEAST_PYTHON:
        return Finding("python", Level.FAIL, detail, "install Python 3.11 or newer")
    return Finding("python", Level.OK, detail)


def check_platform() -> Finding:
    """The kernel and the machine."""
    detail = f"{platform.system()} {platform.release()} {platform.machine()}"
    if sys.platform != "linux":
        return Finding("platform", Level.FAIL, detail, "run paddock on Linux")
    return Finding("platform", Level.OK, detail)


def check_proc() -> Finding:
    """Whether /proc is there: it is how daemons are found that left their session."""
    if Path("/proc/self/stat").exists():
        return Finding("proc", Level.OK, "/proc is mounted")
    return Finding(
        "proc",
        Level.WARN,
        "/proc is not mounted, so daemons that left their session outlive the server",
        "mount it: mount -t proc proc /proc",
    )


def check_pidfd() -> Finding:
    """Whether processes can be named without mistaking one for another."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding(
            "pidfd", Level.FAIL, f"pidfd_open: {error.strerror}", "use Linux 5.3 or newer, or allow the call"
        )
    return Finding("pidfd", Level.OK, "pidfd_open works")


def check_group_signals() -> Finding:
    """Whether a signal to a group can't hit a stranger."""
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
                "use Linux 6.9 or newer; without it, all that is lost is a guard against pid reuse",
            )
        # The call is known; that this process does not lead a group is no matter.
    finally:
        os.close(pidfd)
    return Finding(name, Level.OK, "PIDFD_SIGNAL_PROCESS_GROUP works")


def check_subreaper() -> Finding:
    """Whether orphans come back to the spawner, which ends them."""
    value = ctypes.c_int(0)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0):
        reason = os.strerror(ctypes.get_errno())
        return Finding("subreaper", Level.FAIL, f"PR_GET_CHILD_SUBREAPER: {reason}", "use Linux 3.4 or newer")
    return Finding("subreaper", Level.OK, "PR_SET_CHILD_SUBREAPER is there")


# --- what paddock is made of ------------------------------------------------


def check_spawner() -> Finding:
    """Whether the helper that starts every process is there and runs."""
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


def check_uvloop() -> Finding:
    """Whether the event loop of the server is there."""
    try:
        import uvloop  # noqa: F401
    except ImportError as error:
        return Finding("uvloop", Level.FAIL, str(error), "install it: pip install uvloop")
    return Finding("uvloop", Level.OK, metadata.version("uvloop"))


# --- limits and programs ----------------------------------------------------


def check_descriptors() -> Finding:
    """How many processes the descriptors suffice for. A server raises the soft limit to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return Finding("descriptors", Level.OK, f"limit {soft}, hard limit infinite")
    detail = f"limit {soft}, hard limit {hard}: about {hard // DESCRIPTORS_PER_PROCESS} processes at once"
    if hard < COMFORTABLE_DESCRIPTORS:
        remedy = f"raise the hard limit of open files to {COMFORTABLE_DESCRIPTORS} or more (limits.conf(5))"
        return Finding("descriptors", Level.WARN, detail, remedy)
    return Finding("descriptors", Level.OK, detail)


def check_bubblewrap() -> Finding:
    """The program that sandboxes will be made with."""
    path = shutil.which("bwrap")
    if path is None:
        return Finding(
            "bubblewrap",
            Level.WARN,
            "not found; this version confines nothing, later ones need it",
            "install it: apt install bubblewrap",
        )
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("bubblewrap", Level.WARN, f"{path}: {error}", "install it again")
    return Finding("bubblewrap", Level.OK, f"{done.stdout.strip()} ({path})")


_NAMESPACE_PROBE: Final = """\
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def must(result):
    if result:
        sys.exit(ctypes.get_errno())
uid, gid = os.geteuid(), os.getegid()
try:
    must(libc.unshare(0x10000000))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    must(libc.unshare(0x00020000))
except OSError as error:
    sys.exit(error.errno)
"""
"""A user namespace, a user in it, and something that only its root may do: on hosts where AppArmor
restricts them the first step works and what follows does not."""


def check_user_namespaces() -> Finding:
    """Whether an ordinary user may make the namespaces of a sandbox."""
    name = "user namespaces"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _NAMESPACE_PROBE],
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(name, Level.WARN, f"can't be tried: {error}", "see the message")
    if done.returncode == 0:
        return Finding(name, Level.OK, "can be made")
    reason = os.strerror(done.returncode) if done.returncode > 0 else f"signal {-done.returncode}"
    detail, remedy = _explain_namespaces(Path("/proc/sys"))
    return Finding(name, Level.WARN, f"can't be made: {reason.lower()}; {detail}", remedy)


def _explain_namespaces(settings: Path) -> tuple[str, str]:
    """Which of the kernel's settings forbids them, and how to change it."""
    if _setting(settings / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor restricts them (kernel.apparmor_restrict_unprivileged_userns = 1)",
            "allow userns in a profile of bwrap, or: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        )
    if _setting(settings / "kernel/unprivileged_userns_clone") == "0":
        return (
            "they are switched off (kernel.unprivileged_userns_clone = 0)",
            "sysctl kernel.unprivileged_userns_clone=1",
        )
    if _setting(settings / "user/max_user_namespaces") == "0":
        return (
            "none are allowed (user.max_user_namespaces = 0)",
            "sysctl user.max_user_namespaces=10000",
        )
    return "the kernel's settings allow them", "in a container, allow unshare(2) and the uid_map of its user"


def _setting(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


# --- servers ----------------------------------------------------------------


def check_runtime_directory() -> Finding:
    """Whether servers and operators can meet."""
    uid = os.geteuid()
    try:
        directory = runtime_directory.provide(runtime_directory.candidates(os.environ, uid), uid)
    except ListenError as error:
        remedy = "make one of them yours alone (owner you, mode 0700), or set XDG_RUNTIME_DIR"
        return Finding("runtime directory", Level.FAIL, error.reason, remedy)
    return Finding("runtime directory", Level.OK, str(directory))


def check_servers() -> Finding:
    """The servers of this user."""
    found = asyncio.run(survey(None, CLIENT_NAME))
    servers = [answer.status.server for answer in found.answers]
    told = ", ".join(f"{server.pid} ({server.url})" for server in servers) or "none running"
    if found.problems:
        remedy = "look at its log, or end it"
        return Finding("servers", Level.WARN, "; ".join([told, *found.problems]), remedy)
    return Finding("servers", Level.OK, told)
