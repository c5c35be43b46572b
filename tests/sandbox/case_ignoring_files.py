"""A file system that ignores case itself, as those that macOS and Windows share, by the protocol of FUSE.

It passes on to a directory of the host, where all names are in lower case. Each path has one number, in any
case. What is not needed is missing: links, locks, times and access control.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

from tests.sandbox.reachable import mount

LOOKUP, FORGET, GETATTR, SETATTR = 1, 2, 3, 4
MKNOD, MKDIR, UNLINK, RMDIR, OPEN, READ, WRITE = 8, 9, 10, 11, 14, 15, 16
STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 17, 18, 25, 26, 27, 28, 29
CREATE, BATCH_FORGET = 35, 42
FORGETTING = (FORGET, BATCH_FORGET)

SETS_MODE, SETS_OWNER, SETS_GROUP, SETS_SIZE = 1, 2, 4, 8
KEEPS_NOTHING = struct.pack("<QII", 0, 1, 0)
"""The answer to an opening: the server reads and writes whatever is there."""

REQUEST = struct.Struct("<IIQQIIII")
REQUEST_BYTES = 1 << 20
WRITE_BYTES = 1 << 16
BLOCK_BYTES = 4096


def exact_switch(content: Path) -> Path:
    """Return a file that makes names exact while it exists, as Windows can for a directory."""
    return content.with_name("exact")


def serve(content: Path, place: Path) -> int:
    """Mount the file system, and return the process that serves it until it is killed."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    mount("case", str(place), "fuse", 0, options)
    pid = os.fork()
    if pid == 0:
        try:
            _Files(content).answer_all(device)
        finally:
            os._exit(1)
    os.close(device)
    return pid


class _Files:
    """The files, by number and by path."""

    def __init__(self, content: Path) -> None:
        self._content = content
        self._exact = exact_switch(content)
        # The first request is about nothing.
        self._paths = {0: "", 1: ""}
        self._numbers = {"": 1}
        self._answering: dict[int, Callable[[str, bytes, int, int], bytes]] = {
            INIT: lambda *_: struct.pack("<IIIIHHII36x", 7, 31, WRITE_BYTES, 0, 12, 10, WRITE_BYTES, 1),
            LOOKUP: lambda path, body, *_: self._entry(self._below(path, body)),
            GETATTR: lambda path, *_: self._attributes(path),
            SETATTR: self._set,
            MKNOD: self._make_node,
            MKDIR: self._make_directory,
            CREATE: self._create,
            UNLINK: self._remove,
            RMDIR: self._remove,
            OPEN: lambda *_: KEEPS_NOTHING,
            OPENDIR: lambda *_: KEEPS_NOTHING,
            READ: self._read,
            WRITE: self._write,
            READDIR: self._list,
            STATFS: lambda *_: struct.pack("<5Q4I24x", *(1 << 20,) * 5, BLOCK_BYTES, 255, BLOCK_BYTES, 0),
            **dict.fromkeys((RELEASE, RELEASEDIR, FLUSH), lambda *_: b""),
        }

    def answer_all(self, device: int) -> None:
        """Answer requests for ever."""
        while True:
            request = os.read(device, REQUEST_BYTES)
            _, verb, unique, number, user, group, _, _ = REQUEST.unpack_from(request)
            if verb in FORGETTING:
                continue
            problem, answer = 0, b""
            try:
                answering = self._answering.get(verb)
                if answering is None:
                    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
                answer = answering(self._paths[number], request[REQUEST.size :], user, group)
            except OSError as error:
                problem = error.errno or errno.EIO
            os.write(device, struct.pack("<IiQ", 16 + len(answer), -problem, unique) + answer)

    def _real(self, path: str) -> str:
        return f"{self._content}{path}"

    def _number(self, path: str) -> int:
        number = self._numbers.setdefault(path, len(self._numbers) + 1)
        self._paths[number] = path
        return number

    def _parts(self, path: str) -> bytes:
        found = os.lstat(self._real(path))
        times = (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        return struct.pack(
            "<6Q10I",
            *(self._number(path), found.st_size, found.st_blocks, *(time // 10**9 for time in times)),
            *(time % 10**9 for time in times),
            *(found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, BLOCK_BYTES, 0),
        )

    def _attributes(self, path: str) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self._parts(path)

    def _entry(self, path: str) -> bytes:
        parts = self._parts(path)
        return struct.pack("<4QII", self._number(path), 0, 0, 0, 0, 0) + parts

    def _owned(self, path: str, mode: int, user: int, group: int) -> bytes:
        os.chown(self._real(path), user, group)
        os.chmod(self._real(path), stat.S_IMODE(mode))
        return self._entry(path)

    def _set(self, path: str, body: bytes, _user: int, _group: int) -> bytes:
        what, size, mode, user, group = struct.unpack_from("<I12xQ44xI4xII", body)
        real = self._real(path)
        if what & (SETS_OWNER | SETS_GROUP):
            os.chown(real, user if what & SETS_OWNER else -1, group if what & SETS_GROUP else -1)
        if what & SETS_MODE:
            os.chmod(real, stat.S_IMODE(mode))
        if what & SETS_SIZE:
            os.truncate(real, size)
        return self._attributes(path)

    def _make_node(self, path: str, body: bytes, user: int, group: int) -> bytes:
        (mode,) = struct.unpack_from("<I", body)
        made = self._below(path, body[16:])
        os.mknod(self._real(made), mode)
        return self._owned(made, mode, user, group)

    def _make_directory(self, path: str, body: bytes, user: int, group: int) -> bytes:
        (mode,) = struct.unpack_from("<I", body)
        made = self._below(path, body[8:])
        os.mkdir(self._real(made))
        return self._owned(made, mode, user, group)

    def _create(self, path: str, body: bytes, user: int, group: int) -> bytes:
        _, mode = struct.unpack_from("<II", body)
        made = self._below(path, body[16:])
        os.close(os.open(self._real(made), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        return self._owned(made, mode, user, group) + KEEPS_NOTHING

    def _remove(self, path: str, body: bytes, _user: int, _group: int) -> bytes:
        removed = Path(self._real(self._below(path, body)))
        if removed.is_dir():
            removed.rmdir()
        else:
            removed.unlink()
        return b""

    def _read(self, path: str, body: bytes, _user: int, _group: int) -> bytes:
        offset, size = struct.unpack_from("<8xQI", body)
        return Path(self._real(path)).read_bytes()[offset : offset + size]

    def _write(self, path: str, body: bytes, _user: int, _group: int) -> bytes:
        offset, size = struct.unpack_from("<8xQI", body)
        with open(self._real(path), "r+b") as file:
            file.seek(offset)
            file.write(body[40 : 40 + size])
        return struct.pack("<II", size, 0)

    def _list(self, path: str, body: bytes, _user: int, _group: int) -> bytes:
        offset, size = struct.unpack_from("<8xQI", body)
        listed = b""
        names = [".", "..", *sorted(os.listdir(self._real(path)))]
        for place, name in list(enumerate(names, 1))[offset:]:
            entry = struct.pack("<QQII", 1, place, len(name), 0) + name.encode()
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed

    def _below(self, path: str, body: bytes) -> str:
        name = os.fsdecode(body.partition(bytes(1))[0])
        return f"{path}/{name if self._exact.exists() else name.lower()}"
