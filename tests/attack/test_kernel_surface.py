"""System calls that reach parts of the kernel which belong to everybody."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

from tests.attack.attempt import Attempt, Scene, each_attempt, has_own, holds, is_held, is_leaked
from tests.attack.conftest import Arena
from tests.attack.ground import Cell

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET, NEWTIME = 0x10000000, 0x20000000, 0x40000000, 0x80
AT_FDCWD = -100
HANDLE_BYTES = 128


def _handle_of_secret(cell: Cell) -> Mapping[str, str]:
    """What open_by_handle_at(2) takes for the secret. A handle can be guessed: it is small numbers."""
    handle = (ctypes.c_uint * (2 + HANDLE_BYTES // 4))(HANDLE_BYTES)
    path = os.fsencode(cell.outside / "secret")
    name_to_handle = ctypes.CDLL(None, use_errno=True).name_to_handle_at
    if name_to_handle(AT_FDCWD, path, handle, ctypes.byref(ctypes.c_int()), 0) != 0:
        return {"KIND": "0", "HANDLE": ""}
    return {"KIND": str(handle[1]), "HANDLE": bytes(handle)[8 : 8 + handle[0]].hex()}


def _is_mounted(scene: Scene) -> bool:
    """A process has a mount in its cell."""
    return any(str(scene.cell.inside) in line for process in scene.held for line in process.mounts)


def _has_other_root(scene: Scene) -> bool:
    assert scene.base is not None
    return any(process.root != scene.base.root for process in scene.held)


def _has_detached_mount(scene: Scene) -> bool:
    return any(
        descriptor.target.startswith("/")
        and not any(line.startswith(f"{descriptor.mount} ") for line in process.mounts)
        for process in scene.held
        for descriptor in process.descriptors
        if descriptor.flags & os.O_PATH
    )


def _has_capability(scene: Scene) -> bool:
    return any(int(process.status["CapEff"], 16) for process in scene.held)


def _is_other_user(scene: Scene) -> bool:
    assert scene.base is not None
    return any(process.status["Uid"] != scene.base.status["Uid"] for process in scene.held)


ATTEMPTS = [
    Attempt("a map for programs in the kernel", "$PROBE bpf", holds("anon_inode:bpf-map"), needs_root=True),
    Attempt(
        "a counter of events in the kernel",
        "$PROBE perf",
        holds("anon_inode:[perf_event]"),
        needs_root=True,
        needs="perf events",
    ),
    Attempt(
        "faults of memory that a command answers at leisure",
        "$PROBE userfaultfd",
        holds("anon_inode:[userfaultfd]"),
        needs="userfaultfd",
    ),
    Attempt(
        "calls that no filter sees, through a ring",
        "$PROBE io_uring",
        holds("anon_inode:[io_uring]"),
        needs="io_uring",
    ),
    Attempt(
        "a file system that is set up by steps",
        "$PROBE fsopen",
        holds("anon_inode:[fscontext]"),
        needs_root=True,
    ),
    Attempt(
        "a copy of a mount that no mask is on",
        "$PROBE open_tree .",
        _has_detached_mount,
        needs_root=True,
    ),
    Attempt(
        "a file that is opened by its number instead of its path",
        "$PROBE by_handle $KIND $HANDLE",
        is_leaked,
        prepare=_handle_of_secret,
        needs_root=True,
        needs="file handles",
    ),
    Attempt(
        "capabilities in a new user namespace",
        f"$PROBE unshare {NEWUSER}",
        has_own("user"),
        needs="user namespaces",
    ),
    Attempt(
        "a child in a new user namespace",
        f"$PROBE clone {NEWUSER}",
        has_own("user"),
        needs="user namespaces",
    ),
    Attempt(
        "a child in a new user namespace, by the call whose flags no filter sees",
        f"$PROBE clone3 {NEWUSER}",
        has_own("user"),
        needs="user namespaces",
    ),
    Attempt("mounts of its own", f"$PROBE unshare {NEWNS}", has_own("mnt"), needs_root=True),
    Attempt("a network of its own", f"$PROBE unshare {NEWNET}", has_own("net"), needs_root=True),
    Attempt("processes of its own", f"$PROBE clone {NEWPID}", has_own("pid"), needs_root=True),
    Attempt("IPC of its own", f"$PROBE clone {NEWIPC}", has_own("ipc"), needs_root=True),
    Attempt(
        "a host name of its own, by the call whose flags no filter sees",
        f"$PROBE clone3 {NEWUTS}",
        has_own("uts"),
        needs_root=True,
    ),
    Attempt("control groups of its own", f"$PROBE unshare {NEWCGROUP}", has_own("cgroup"), needs_root=True),
    Attempt(
        "the namespace of a process outside, through its link",
        f"$PROBE setns /proc/$VICTIM/ns/cgroup {NEWCGROUP}; $PROBE setns /proc/1/ns/mnt {NEWNS}",
        is_held,
        has_victim=True,
        needs_root=True,
    ),
    Attempt(
        "all namespaces of the process above, through its descriptor",
        f"$PROBE setns_pidfd 1 {NEWNS}",
        is_held,
        needs_root=True,
    ),
    Attempt("a new file system on a directory", "mkdir m; $PROBE mount m", _is_mounted, needs_root=True),
    Attempt("a directory on another one", "mkdir m; $PROBE bind / m", _is_mounted, needs_root=True),
    Attempt("a mount that is made writable again", "$PROBE remount /", is_held, needs_root=True),
    Attempt("the flags of a mount, by the newer call", "$PROBE mount_setattr /", is_held, needs_root=True),
    Attempt("a mask that is taken off", "$PROBE umount /proc", is_held, needs_root=True, is_alone=True),
    Attempt(
        "a mount that is moved", "mkdir m; $PROBE move /dev m", _is_mounted, needs_root=True, is_alone=True
    ),
    Attempt("another root for a path to begin at", "$PROBE chroot .", _has_other_root, needs_root=True),
    Attempt(
        "another root of all mounts",
        "mkdir m; $PROBE pivot_root m",
        is_held,
        needs_root=True,
        is_alone=True,
    ),
    Attempt("a lease, for which everybody else has to wait", "touch m; $PROBE lease m", is_held),
    Attempt("a device that it makes itself", "$PROBE mknod $PWD/m 0x105", is_held, needs_root=True),
    Attempt("a capability that it had before", "$PROBE capset", _has_capability, needs_root=True),
    Attempt("another user", "$PROBE setuid", _is_other_user, needs_root=True),
    Attempt("the log of the kernel", "$PROBE syslog", is_held, needs_root=True),
    Attempt("a module for the kernel", "$PROBE init_module", is_held, needs_root=True, needs="modules"),
    Attempt("notices of all that happens on a mount", "$PROBE fanotify /", is_held, needs_root=True),
    Attempt(
        "a record of all processes",
        "touch m; $PROBE acct $PWD/m",
        is_held,
        needs_root=True,
        needs="accounting",
    ),
    Attempt("another host name", "$PROBE sethostname $NAME", is_held, needs_root=True, is_alone=True),
]


@each_attempt(ATTEMPTS)
def test_way_out_is_open_outside_and_closed_inside(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, ATTEMPTS, user)
