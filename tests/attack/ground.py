"""What attacks aim at, and what the host sees of it before and after.

A ground has a project that the commands may write, a second root, and a directory outside of all roots. Each
attempt has a cell in the project and one outside, with a secret of its own and a victim that
nobody may change. Whatever is judged here is read from the file system and from
`/proc` of the host; what a command says counts only if a secret is in it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

CONTENT = 6
"""Where the content of a file is in what was seen of it."""

Seen = dict[str, tuple[object, ...]]
"""What is below a directory, by relative path."""

SEARCHED_BYTES = 1 << 20
"""Of each file in which a secret is looked for."""


@dataclass(frozen=True)
class Cell:
    """Where one attempt is played."""

    number: int
    token: str
    """In the names of its processes."""
    inside: Path
    """In the project; the command runs here."""
    outside: Path
    secret: str
    """The content of `outside/secret`."""

    @property
    def victim(self) -> Path:
        """A directory that nobody may change."""
        return self.outside / "victim"

    @property
    def process_name(self) -> str:
        """What its processes call themselves; comm(5) has 15 bytes."""
        return f"{self.token}-{self.number}"

    def holders(self) -> set[int]:
        """The inodes of all files of the project's cell that the secret stands in; 0 for a name or a link."""
        wanted = self.secret.encode()
        return {inode for inode, content in _contents(self.inside) if wanted in content}


@dataclass
class Ground:
    """The files of one run of several attempts."""

    directory: Path
    user: int
    token: str = field(default_factory=lambda: f"x{secrets.token_hex(3)}")

    def __post_init__(self) -> None:
        for path in (self.project, self.second, self.outside):
            path.mkdir(parents=True)

    @property
    def project(self) -> Path:
        """Three directories deep, so that each one above it can be attacked, too."""
        return self.directory / "upper" / "lower" / "project"

    @property
    def second(self) -> Path:
        """Another root."""
        return self.directory / "second"

    @property
    def outside(self) -> Path:
        """In no root."""
        return self.directory / "outside"

    def cell(self, number: int) -> Cell:
        """Make the cell of an attempt."""
        cell = Cell(
            number,
            self.token,
            self.project / f"c{number}",
            self.outside / f"c{number}",
            f"secret-{secrets.token_hex(8)}",
        )
        cell.inside.mkdir()
        (cell.victim / "below").mkdir(parents=True)
        (cell.outside / "secret").write_text(cell.secret)
        (cell.outside / "secret").chmod(0o600)
        (cell.victim / "file").write_text("untouched\n")
        (cell.victim / "below" / "deep").write_text("untouched\n")
        return cell

    def give(self) -> None:
        """Let everything belong to the user of the commands."""
        for path in [self.directory, *self.directory.rglob("*")]:
            os.chown(path, self.user, self.user, follow_symlinks=False)

    def remove(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.directory, ignore_errors=True)


def look(directory: Path) -> Seen:
    """Everything that can be changed about what is below a directory, and about itself."""
    found: Seen = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        status = path.lstat()
        content: object = None
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        found[str(path.relative_to(directory))] = (
            status.st_ino,
            status.st_mode,
            status.st_uid,
            status.st_gid,
            status.st_nlink,
            status.st_mtime_ns,
            content,
            tuple(os.listxattr(path, follow_symlinks=False)),
        )
    return found


def _contents(directory: Path) -> Iterator[tuple[int, bytes]]:
    # Not by rglob, which fails where a path is too long to be one.
    names = (Path(above, name) for above, below, files in os.walk(directory) for name in (*below, *files))
    for path in names:
        yield 0, os.fsencode(path.name)
        with suppress(OSError):
            if path.is_symlink():
                yield 0, os.fsencode(os.readlink(path))
            elif path.is_file():
                with path.open("rb") as file:
                    yield path.stat().st_ino, file.read(SEARCHED_BYTES)


# ---- processes ----


@dataclass(frozen=True)
class Descriptor:
    """An open file of a process, as the host sees it."""

    target: str
    """Where its link in /proc leads."""
    flags: int
    position: int
    mount: int

    @property
    def is_writable(self) -> bool:
        """Whether it was opened for writing."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY and not self.flags & os.O_PATH


@dataclass(frozen=True)
class Process:
    """A process as the host sees it while it lives."""

    pid: int
    name: str
    status: dict[str, str]
    descriptors: tuple[Descriptor, ...]
    namespaces: dict[str, str]
    mounts: tuple[str, ...]
    root: str
    personality: int
    limits: str
    oom_adjustment: int
    niceness: int

    @property
    def pending(self) -> int:
        """The signals that wait to be taken, as bits."""
        return int(self.status["ShdPnd"], 16) | int(self.status["SigPnd"], 16)


def processes(name: str) -> list[Process]:
    """The living processes whose name begins so."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        with suppress(OSError, KeyError):
            if (path / "comm").read_text().startswith(name):
                process = _process(path)
                if process.status["State"][0] not in "ZX":
                    found.append(process)
    return found


def _process(path: Path) -> Process:
    lines = (path / "status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return Process(
        pid=int(path.name),
        name=status["Name"],
        status=status,
        descriptors=tuple(_descriptors(path)),
        namespaces={name.name: os.readlink(name) for name in (path / "ns").iterdir()},
        mounts=tuple(os.fsdecode((path / "mountinfo").read_bytes()).splitlines()),
        root=_identity(path / "root"),
        personality=int((path / "personality").read_text(), 16),
        limits=(path / "limits").read_text(),
        oom_adjustment=int((path / "oom_score_adj").read_text()),
        niceness=int((path / "stat").read_text().rpartition(")")[2].split()[16]),
    )


def _descriptors(path: Path) -> Iterator[Descriptor]:
    for link in (path / "fd").iterdir():
        with suppress(FileNotFoundError):
            info = dict(
                line.split(":\t", 1)
                for line in (path / "fdinfo" / link.name).read_text().splitlines()
                if ":\t" in line
            )
            yield Descriptor(os.readlink(link), int(info["flags"], 8), int(info["pos"]), int(info["mnt_id"]))


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"
