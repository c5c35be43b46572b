"""Commands that fail in a sandbox, because of it or for another reason: by these, denials are measured.

In a script W is the workspace, which can be written, OUT a directory outside of it, which can only be read,
and PORT is that of a web server on the loopback of the host. `denial_ground` tells what is in them.
"""

from __future__ import annotations

from dataclasses import dataclass

from paddock.model.denial import DenialKind

READ, WRITE, EXEC = DenialKind.READ, DenialKind.WRITE, DenialKind.EXEC
NETWORK, SYSCALL = DenialKind.NETWORK, DenialKind.SYSCALL


@dataclass(frozen=True)
class Case:
    """A command, and what the sandbox keeps it from."""

    tool: str
    """What has to be installed for it."""
    script: str
    kind: DenialKind | None = None
    """None if it fails for another reason."""
    target: str | None = None
    """A pattern of names; None for one that nobody can know."""
    also: tuple[tuple[DenialKind, str], ...] = ()
    """What else it may truly be denied on the way."""
    profile: str = "usual"
    is_shown_outside: bool = True
    """Whether the same command tells the truth without a sandbox: it works there if it is denied here, and
    fails there, too, if it is not. Some would need the internet, or more than the host of the tests lets."""
    status: int | None = None
    """How it ends, if that is worth a word."""


BASH = (
    Case("bash", "echo x > OUT/new", WRITE, "OUT/new"),
    Case("bash", "echo x >> OUT/file", WRITE, "OUT/file"),
    Case("bash", "touch OUT/new", WRITE, "OUT/new"),
    Case("bash", "mkdir OUT/new", WRITE, "OUT/new"),
    Case("bash", "rm OUT/file", WRITE, "OUT/file"),
    Case("bash", "mv OUT/file OUT/new", WRITE, "OUT/file", also=((WRITE, "OUT/new"),)),
    Case("bash", "cp plain OUT/new", WRITE, "OUT/new"),
    Case("bash", "ln -s plain OUT/new", WRITE, "OUT/new"),
    Case("bash", "chmod 600 OUT/file", WRITE, "OUT/file"),
    Case("bash", "sed -i s/a/b/ OUT/file", WRITE, "OUT/sed*"),
    Case("bash", "tee OUT/new < plain", WRITE, "OUT/new"),
    Case("bash", "truncate -s 0 OUT/file", WRITE, "OUT/file"),
    Case("bash", "tar cf OUT/new.tar plain", WRITE, "OUT/new.tar"),
    Case("bash", "sh -c 'echo x > OUT/new'", WRITE, "OUT/new"),
    Case("bash", "(echo x > OUT/new) 2>&1", WRITE, "OUT/new"),
    Case("bash", "echo x > ro/file", WRITE, "W/ro/file"),
    Case("bash", "cd W/ && touch ro/new", WRITE, "W/ro/new"),
    Case("bash", "cd ro; touch new", WRITE, "W/ro/new"),
    Case("bash", "rm -rf ro", WRITE, "W/ro/file"),
    Case("bash", "mv ro elsewhere", WRITE, "W/ro"),
    Case("bash", "rm .git/HEAD", WRITE, "W/.git/HEAD"),
    Case("bash", "mv .git elsewhere", WRITE, "W/.git"),
    Case("bash", "mkdir absent", WRITE, "W/absent"),
    Case("bash", "echo x > way-out/new", WRITE, "W/way-out/new"),
    Case("bash", "touch OUT/new 2> errors; exit 0", WRITE, "OUT/new", status=0),
    Case("bash", "cat token", READ, "W/token"),
    Case("bash", "cat < token", READ, "W/token"),
    Case("bash", "head -1 W/token", READ, "W/token"),
    Case("bash", "grep key token", READ, "W/token"),
    Case("bash", "cp token copy", READ, "W/token"),
    Case("bash", "cat alias", READ, "W/alias"),
    Case("bash", "cat secret/key", READ, "W/secret/key"),
    Case("bash", "ls secret", READ, "W/secret"),
    Case("bash", "cd secret", READ, "W/secret"),
    Case("bash", "find . -name key", READ, "W/secret"),
    Case("bash", "tar cf new.tar secret", READ, "W/secret"),
    Case("bash", "cat deep/server.pem", READ, "W/deep/server.pem"),
    Case("bash", "cat OUT/file", READ, "OUT/file", profile="hidden"),
    Case("bash", "./tool", EXEC, "W/tool"),
    Case("bash", "W/tool", EXEC, "W/tool"),
    Case("bash", "env ./tool", EXEC, "W/tool"),
    Case("bash", "exec ./tool", EXEC, "W/tool"),
    Case("bash", "echo > /dev/tcp/127.0.0.1/PORT", NETWORK, "127.0.0.1:PORT"),
    Case("dmesg", "dmesg > lines", SYSCALL, "syslog", is_shown_outside=False),
    Case("strace", "strace -o calls true", SYSCALL, "ptrace", is_shown_outside=False),
    Case("unshare", "unshare --user true", SYSCALL, "unshare", is_shown_outside=False),
)

PYTHON = (
    Case("python3", "python3 -c \"open('OUT/new', 'w')\"", WRITE, "OUT/new"),
    Case("python3", "python3 -c \"open('ro/new', 'w')\"", WRITE, "W/ro/new"),
    Case("python3", "python3 -c \"import os; os.mkdir('OUT/new')\"", WRITE, "OUT/new"),
    Case(
        "python3",
        "python3 -c \"import os; os.rename('OUT/file', 'OUT/new')\"",
        WRITE,
        "OUT/file",
        also=((WRITE, "OUT/new"),),
    ),
    Case(
        "python3", "python3 -c \"import pathlib; pathlib.Path('OUT/new').write_text('x')\"", WRITE, "OUT/new"
    ),
    Case("python3", "python3 -c \"import shutil; shutil.rmtree('W/ro')\"", WRITE, "W/ro/file"),
    Case(
        "python3",
        "python3 -c \"import sqlite3; sqlite3.connect('OUT/new').execute('create table a (b)')\"",
        WRITE,
        "OUT/new",
    ),
    Case("python3", "python3 -c \"open('token')\"", READ, "W/token"),
    Case("python3", "python3 -c \"import os; os.listdir('secret')\"", READ, "W/secret"),
    Case("python3", "python3 token", READ, "W/token"),
    Case("python3", "python3 -c \"import subprocess; subprocess.run('W/tool', check=True)\"", EXEC, "W/tool"),
    Case(
        "python3",
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', PORT))\"",
        NETWORK,
    ),
    Case(
        "python3",
        "python3 -c \"import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT/')\"",
        NETWORK,
        "127.0.0.1:PORT",
    ),
    Case(
        "python3",
        "python3 -c \"import socketserver; socketserver.TCPServer(('127.0.0.1', 0), None)\"",
        NETWORK,
    ),
    Case(
        "python3",
        'python3 -c "import ctypes; exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) and 1)"',
        SYSCALL,
        "ptrace",
        is_shown_outside=False,
    ),
)

NODE = (
    Case("node", "node -e \"fs.writeFileSync('OUT/new', '')\"", WRITE, "OUT/new"),
    Case("node", "node -e \"fs.promises.writeFile('OUT/new', '')\"", WRITE, "OUT/new"),
    Case("node", "node -e \"fs.mkdirSync('ro/new')\"", WRITE, "W/ro/new"),
    Case(
        "node",
        "node -e \"fs.renameSync('OUT/file', 'OUT/new')\"",
        WRITE,
        "OUT/file",
        also=((WRITE, "OUT/new"),),
    ),
    Case("node", "node -e \"fs.readFileSync('token')\"", READ, "W/token"),
    Case("node", "node -e \"fs.readdirSync('secret')\"", READ, "W/secret"),
    Case("node", "node -e \"child_process.execFileSync('W/tool')\"", EXEC, "W/tool"),
    Case("node", "node -e \"fetch('http://127.0.0.1:PORT/')\"", NETWORK, "127.0.0.1:PORT"),
    Case("node", "node -e \"net.connect(PORT, '127.0.0.1').on('connect', process.exit)\"", NETWORK, "*:PORT"),
    Case("node", 'node -e "http.createServer().listen(0, process.exit)"', NETWORK),
)

GIT = (
    Case("git", "git commit --allow-empty -m x", WRITE, "W/.git/index.lock"),
    Case("git", "git add plain", WRITE, "W/.git/index.lock"),
    Case("git", "git checkout -b new", WRITE, "W/.git/refs/heads/new.lock"),
    Case("git", "git config user.name x", WRITE, "W/.git/config*"),
    Case("git", "git stash", WRITE, "W/.git/index.lock"),
    Case("git", "git clone . OUT/new", WRITE, "OUT/new"),
    Case("git", "git hash-object token", READ, "W/token"),
    Case("git", "git clone http://name.invalid/x new", NETWORK, "name.invalid", is_shown_outside=False),
    Case("git", "git ls-remote git://127.0.0.1:PORT/x", NETWORK, "127.0.0.1*", is_shown_outside=False),
)

CURL = (
    Case("curl", "curl http://127.0.0.1:PORT/", NETWORK, "127.0.0.1:PORT"),
    Case("curl", "curl -sS http://localhost:PORT/", NETWORK, "localhost:PORT"),
    Case("curl", "curl -fsSL http://127.0.0.1:PORT/ 2>&1", NETWORK, "127.0.0.1:PORT"),
    Case("curl", "curl -s http://127.0.0.1:PORT/", NETWORK),
    Case("curl", "curl http://name.invalid/", NETWORK, "name.invalid", is_shown_outside=False),
    Case(
        "curl", "curl http://192.0.2.1/", NETWORK, "192.0.2.1:80", profile="loopback", is_shown_outside=False
    ),
    Case("curl", "curl -o ro/new file://W/plain", WRITE, "W/ro/new"),
    Case("curl", "curl -sS -o OUT/new file://W/plain", WRITE, "OUT/new"),
    Case("curl", "curl file://W/token", READ, "W/token"),
)

ORDINARY = (
    Case("bash", "cat locked"),
    Case("bash", "./plain"),
    Case("bash", "touch sealed/new"),
    Case("bash", "cat missing"),
    Case("bash", "mkdir plain"),
    Case("bash", "cat build.log; exit 1"),
    Case("bash", "cat build.log >&2; exit 1"),
    Case("bash", "echo 'cat: W/token: Permission denied' >&2; exit 1"),
    Case("bash", "grep 'Permission denied' build.log; false"),
    Case("bash", "tail -1 build.log; exit 2"),
    Case("bash", "echo 'git@host: Permission denied (publickey).' >&2; exit 128"),
    Case("bash", "echo 'checking for landlock... no'; exit 1"),
    Case("bash", "ls W/sandbox/missing"),
    Case("bash", "kill -SYS $$"),
    Case("bash", "no-such-command"),
    Case("bash", "cat OUT/missing", profile="hidden"),
    Case("python3", "python3 -c \"open('locked')\""),
    Case("python3", "python3 -c \"raise PermissionError('operation not permitted')\""),
    Case("python3", "python3 -c \"raise AssertionError('expected: Read-only file system')\""),
    Case("node", "node -e \"fs.readFileSync('locked')\""),
    Case("node", "node -e \"throw new Error('failed to write file')\""),
    Case("git", "git clone nowhere new"),
    Case("git", "git clone locked new"),
    Case("curl", "curl -f http://127.0.0.1:PORT/forbidden", profile="open"),
    Case("curl", "curl http://127.0.0.1:1/", profile="open"),
    Case("curl", "curl http://127.0.0.1:1/", profile="loopback"),
    Case("curl", "curl -sS -o sealed/new file://W/plain"),
)

GROUPS = {"bash": BASH, "python": PYTHON, "node": NODE, "git": GIT, "curl": CURL, "ordinary": ORDINARY}
