"""Tries once, with programs of our own, whether the kernel lets us decide on executions.

A container, or whoever started the server, may refuse listeners or `ptrace`, and no file says so. So the
trial starts a program in a small sandbox under a listener and denies what it executes, with the same code as
for commands: paddock-init loads the filter, and what paddock-leader would execute becomes paddock-stub.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import subprocess
from contextlib import ExitStack
from typing import Final

from paddock import own_program
from paddock.model.host import Bubblewrap, HostFacts, Problem
from paddock.sandbox.denial.exec_answer import Deny, ExecAnswer, ExecPolicy, Settle
from paddock.sandbox.denial.exec_call import ExecCall
from paddock.sandbox.denial.executions import Executions
from paddock.sandbox.denial.notification import Listener
from paddock.sandbox.host.kernel import kill_group
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan import bpf
from paddock.sandbox.plan.bpf import Notice

TRIAL_TIMEOUT_S: Final = 10.0
"""Some hundred times what it takes on an idle machine."""

_DENIED: Final = "denied on trial\n"
_PTRACE_INTERRUPT: Final = 0x4207
_DESCRIPTOR: Final = struct.Struct("=i")


def notify_problem(facts: HostFacts, init: str, leader: str) -> Problem | None:
    """Return what keeps notifications from deciding on executions; None if nothing does.

    `init` and `leader` are paddock-init and paddock-leader. Blocks for some milliseconds.
    """
    if facts.bwrap is None:
        return _problem("it can't be tried without bubblewrap")
    refusal = _ptrace_refusal()
    if refusal is not None:
        return _problem(f"ptrace is refused here ({refusal})")
    try:
        with ExitStack() as opened:
            said = _trial(facts, facts.bwrap, [init, leader], opened)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _problem(f"a trial of it failed: {error}")
    if _DENIED in said:
        return None
    return _problem(f"a trial of it failed: {said.strip() or 'nothing was denied'}")


def _problem(detail: str) -> Problem:
    return Problem("notify", detail, "allow ptrace and seccomp listeners, or use the wrapper (make bash)")


def _ptrace_refusal() -> str | None:
    """Return how a filter refuses the call; None if the kernel itself answers: there is no process 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace(_PTRACE_INTERRUPT, 0, None, None)
    number = ctypes.get_errno()
    return None if number == errno.ESRCH else os.strerror(number)


def _trial(facts: HostFacts, bubblewrap: Bubblewrap, programs: list[str], opened: ExitStack) -> str:
    """Deny what a program executes. Return what was said."""
    init, leader = programs
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    opened.enter_context(ours)
    ours.send(_filter(facts.arch))
    # The leader waits for orders on its standard input, and ends at the end of that.
    orders, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    opened.enter_context(orders)
    with theirs, control:
        command = [
            bubblewrap.path if bubblewrap.fd is None else f"/proc/self/fd/{bubblewrap.fd}",
            # As for every sandbox: whoever makes a user namespace may inspect what is in it.
            *("--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"),
            *(("--proc", "/proc") if facts.can_mount_proc else ()),
            *("--", init, f"trace={theirs.fileno()}", "--", leader, "control=0", "--", init),
        ]
        inherited = [theirs.fileno(), *(() if bubblewrap.fd is None else (bubblewrap.fd,))]
        process = opened.enter_context(
            subprocess.Popen(
                command,
                stdin=control.fileno(),
                # No /dev/null: the host's must not get inside.
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=inherited,
                cwd=own_program.ROOT,
                env=own_program.own_environment(),
                text=True,
                errors="replace",
                process_group=0,
            )
        )
    opened.callback(kill_group, process)
    file = _listener_of(ours)
    if file is not None:
        _serve(Listener(file), opened)
    said, _ = process.communicate(timeout=TRIAL_TIMEOUT_S)
    return said


def _filter(machine: str) -> bytes:
    known = MACHINES[machine]
    asked = [Notice(known.numbers[name], ()) for name in ("execve", "execveat")]
    return bpf.assemble(known.audit_architecture, asked, foreign_abi_bit=known.foreign_abi_bit)


def _listener_of(ours: socket.socket) -> int | None:
    """Return the listener, which comes before the program runs; None if it never does."""
    ours.settimeout(TRIAL_TIMEOUT_S)
    try:
        _, parts, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(_DESCRIPTOR.size), socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    return int(_DESCRIPTOR.unpack(parts[0][2])[0]) if parts else None


def _serve(listener: Listener, opened: ExitStack) -> None:
    """Answer until nobody is left who could ask."""
    opened.callback(listener.close)
    executions = Executions(ExecPolicy(_deny))
    opened.callback(executions.close)
    poll = select.poll()
    poll.register(listener.file, select.POLLIN)
    executions.begin(poll)
    while True:
        ready = dict(poll.poll(TRIAL_TIMEOUT_S * 1000))
        if not ready.get(listener.file, 0) & select.POLLIN:
            return
        question = listener.question()
        if question is not None:
            executions.asked(listener, question)


def _deny(_call: ExecCall, _settle: Settle) -> ExecAnswer:
    return Deny(_DENIED)
