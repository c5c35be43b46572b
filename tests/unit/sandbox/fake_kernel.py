"""Hosts that do not exist, for the probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paddock.sandbox.host.kernel import Kernel, Trial

HELP = """\
usage: bwrap [OPTIONS...] [--] COMMAND [ARGS...]

    --help                       Print this help
    --args FD                    Parse NUL-separated args from FD
    --unshare-user               Create new user namespace
    --ro-bind-fd FD DEST         Bind open directory or path fd read-only on DEST
    --seccomp FD                 Load and use seccomp rules from FD (not repeatable)
    --as-pid-1                   Do not install a reaper process with PID=1
    --disable-userns             Disable further use of user namespaces inside sandbox
"""
HELP_WITH_PERMS = HELP + "    --perms OCTAL                Set permissions of next argument\n"


@dataclass
class FakeKernel(Kernel):
    """A kernel and its bubblewrap, as told."""

    files: dict[str, str] = field(default_factory=lambda: {"/proc/sys/kernel/random/boot_id": "one"})
    writable: set[str] = field(default_factory=set)
    attributes: dict[tuple[str, str], bytes] = field(default_factory=dict)
    abi: int = 7
    is_x86: bool = True
    uid: int = 1000
    help: str = HELP_WITH_PERMS
    complaint: str = ""
    """What bubblewrap says when it is to make namespaces; if empty, they work."""
    proc_complaint: str = ""
    runs: list[list[str]] = field(default_factory=list)

    def machine(self) -> str:
        return "x86_64" if self.is_x86 else "riscv64"

    def release(self) -> str:
        return "6.18.1-test"

    def user(self) -> int:
        return self.uid

    def content(self, path: str) -> bytes | None:
        text = self.files.get(path)
        return None if text is None else text.encode()

    def exists(self, path: str) -> bool:
        return path in self.files

    def can_write(self, path: str) -> bool:
        return path in self.writable

    def attribute(self, path: str, name: str) -> bytes | None:
        return self.attributes.get((path, name))

    def landlock_abi(self) -> int:
        return self.abi

    def run(self, argv: Sequence[str], descriptors: Sequence[int] = ()) -> Trial:
        self.runs.append(list(argv))
        if argv[1:] == ["--help"]:
            return Trial(0, self.help, "")
        if argv[1:] == ["--version"]:
            return Trial(0, "bubblewrap 0.11.0\n", "")
        complaint = self.complaint or (self.proc_complaint if "--proc" in argv else "")
        return Trial(1, "", complaint) if complaint else Trial(0, "bubblewrap 0.11.0\n", "")


def make_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
