"""A file worker that tells how it is confined, in place of carrying operations out.

    python -m tests.sandbox.entered_worker USER PID

PID is the first process of a sandbox that is kept for others; what has to be taken on there comes on
standard input, as JSON. The process imports everything while it may, becomes the user, and then has a
worker made as a server does. Its output is what the worker wrote to its socket: the JSON of `FACTS`, or the
frame of a worker that has not begun.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os

# For the program below, which can't import it where the interpreter is out of sight.
import resource  # noqa: F401
import socket
import sys

from paddock.fs import fork_server, namespace_entry
from paddock.model.restriction import Restriction
from tests.sandbox.identity import drop_to

PR_SET_DUMPABLE = 4

FACTS = """
import ctypes, json, os, resource, socket, sys

libc = ctypes.CDLL(None, use_errno=True)
words = json.loads(sys.argv[1])

def failure(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0

def call(name, *arguments):
    if libc[name](*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)

def write(path):
    with open(path, "w") as file:
        file.write("changed")

os.chdir(words["place"])
with open("/proc/self/status") as file:
    status = dict(line.split(":\\t") for line in file.read().splitlines() if ":\\t" in line)
text = json.dumps({
    "status": {
        name: value for name, value in status.items()
        if name.startswith(("Cap", "NoNew", "Seccomp", "Uid", "Gid"))
    },
    "securebits": libc.prctl(27, 0, 0, 0, 0),
    "keyring": failure(lambda: call("syscall", words["keyctl"], 0, -3, 0)),
    "attempts": {
        "read": failure(lambda: open("outside").close()),
        "write outside": failure(lambda: write("outside")),
        "write inside": failure(lambda: write("granted/inside")),
        "write a file": failure(lambda: write("file")),
        "move in": failure(lambda: os.rename("outside", "granted/outside")),
        "socket": failure(lambda: socket.socket(socket.AF_INET)),
        "user namespace": failure(lambda: call("unshare", 0x10000000)),
        "mount namespace": failure(lambda: call("unshare", 0x20000)),
        "chroot": failure(lambda: os.chroot("/")),
        "signal to the first process": failure(lambda: os.kill(1, 0)),
    },
    "namespaces": {
        name: os.stat("/proc/self/ns/" + name).st_ino for name in ("user", "mnt", "net", "ipc", "pid", "uts")
    },
    "dumpable": libc.prctl(3, 0, 0, 0, 0),
    "limits": {
        name: resource.getrlimit(getattr(resource, name))
        for name in dir(resource) if name.startswith("RLIMIT_")
    },
    "open": sorted({os.readlink("/proc/self/fd/" + name).partition(":")[0] for name in ("0", "1", "2")}),
    "more": [name for name in map(str, range(3, 256)) if os.path.lexists("/proc/self/fd/" + name)],
})
os.write(1, text.encode())
"""
"""A program without anything of ours, for any interpreter.

Its argument is JSON: the place to try, and the number of keyctl(2).
"""


def tell(argument: str) -> None:
    """Be that program."""
    sys.argv = ["", argument]
    exec(FACTS, {})


def become(user: int) -> None:
    """Be an ordinary process of the user."""
    identity = drop_to(user)
    if identity:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    # As after execve; the kernel has closed a process that has changed its user.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def main(user: int, pid: int) -> None:
    """Have one worker made, and pass on what it says."""
    told = json.load(sys.stdin)
    restriction = Restriction(*(base64.b64decode(told[name]) for name in ("words", "filter")))
    confine = namespace_entry.load(str(namespace_entry.LIBRARY))
    become(user)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own, its = socket.socketpair()
    with ours, own:
        with its:
            fork_server.request_worker(ours, its, namespace_entry.open_namespaces(pid), restriction)
        if (copy := os.fork()) == 0:
            ours.close()
            own.close()
            fork_server.serve(theirs, confine, lambda: tell(told["argument"]))
            os._exit(0)
        theirs.close()
        ours.shutdown(socket.SHUT_WR)
        while piece := own.recv(4096):
            sys.stdout.buffer.write(piece)
    os.waitpid(copy, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
