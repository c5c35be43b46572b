"""Rows about files: whole contents, metadata and a walk."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.client import Client, request
from bench.errors import BenchError
from bench.row import Figure, Row, Unit
from bench.servers import Contender

MIB = 1 << 20
SMALL_BYTES = 4 << 10
READ_BYTES = 16 * MIB
WRITE_BYTES = 4 * MIB
LARGE_FRAMES_BYTES = 4 * READ_BYTES
"""A buffer in which an answer with all of the largest file fits twice, which is what the client wants."""


class Files(Row):
    """Repeats of one request on files of its own, per second."""

    repeats: ClassVar[int]
    window: ClassVar[int] = 1
    is_sliding: ClassVar[bool] = True
    """Whether each answer makes room for a request, or only all of them for the next batch."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="paddock-bench-"))

    def call(self) -> tuple[str, dict[str, Any]]:
        """The method and its parameters."""
        raise NotImplementedError

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def measure(self, contender: Contender) -> Sequence[float]:
        method, params = self.call()
        with contender.server.connect(buffer_bytes=LARGE_FRAMES_BYTES) as client:
            requests = [request(number, method, params) for number in range(1, self.window + 1)]
            client.send(requests[0])
            self.check(client.result(1), contender)
            self._exchange(client, requests, max(1, self.repeats // 10))
            begun = time.perf_counter()
            self._exchange(client, requests, self.repeats)
            return (self.repeats / (time.perf_counter() - begun) * self.scale(),)

    def check(self, result: bytes, contender: Contender) -> None:
        """Raise BenchError unless the answer is right."""

    def scale(self) -> int:
        """What one request counts for."""
        return 1

    def _exchange(self, client: Client, requests: list[bytes], calls: int) -> None:
        sent = answered = 0
        while answered < calls:
            unanswered = sent - answered
            room = min(self.window - unanswered, calls - sent)
            if room and (self.is_sliding or not unanswered):
                client.send(b"".join(requests[:room]))
                sent += room
            answered += len(client.receive())


class FileRead(Files):
    name = "file-read"
    repeats = 10
    figures = (Figure("reading a file of 16 MiB", Unit.BYTES_PER_SECOND, goal=1.5),)

    def __init__(self) -> None:
        super().__init__()
        self._path = self.folder / "content"
        self._path.write_bytes(os.urandom(READ_BYTES))

    def call(self) -> tuple[str, dict[str, Any]]:
        return "fs/readFile", {"path": self._path.as_uri()}

    def check(self, result: bytes, contender: Contender) -> None:
        if b64encode(self._path.read_bytes()) not in result:
            raise BenchError(f"{contender.name} did not deliver the file")

    def scale(self) -> int:
        return READ_BYTES


class ConfinedFileRead(Files):
    """A small file under a profile that lets nothing else be read."""

    name = "file-read-sandboxed"
    repeats = 20
    figures = (Figure("sandboxed reads of 4 KiB, one at a time", Unit.PER_SECOND, goal=20),)

    def __init__(self) -> None:
        super().__init__()
        self._path = self.folder / "content"
        self._path.write_bytes(os.urandom(SMALL_BYTES))

    def call(self) -> tuple[str, dict[str, Any]]:
        place = {"type": "path", "path": self.folder.as_uri()}
        files = {"type": "restricted", "entries": [{"path": place, "access": "read"}]}
        profile = {"type": "managed", "file_system": files, "network": "restricted"}
        sandbox = {"permissions": profile, "windowsSandboxLevel": "disabled"}
        return "fs/readFile", {"path": self._path.as_uri(), "sandbox": sandbox}

    def check(self, result: bytes, contender: Contender) -> None:
        if b64encode(self._path.read_bytes()) not in result:
            raise BenchError(f"{contender.name} did not deliver the file")


class FileWrite(Files):
    name = "file-write"
    repeats = 20
    figures = (Figure("writing a file of 4 MiB", Unit.BYTES_PER_SECOND, goal=1),)

    def __init__(self) -> None:
        super().__init__()
        self._path = self.folder / "written"
        self._content = os.urandom(WRITE_BYTES)

    def call(self) -> tuple[str, dict[str, Any]]:
        self._path.unlink(missing_ok=True)
        data = b64encode(self._content).decode()
        return "fs/writeFile", {"path": self._path.as_uri(), "dataBase64": data}

    def check(self, result: bytes, contender: Contender) -> None:
        if self._path.read_bytes() != self._content:
            raise BenchError(f"{contender.name} did not write the file")

    def scale(self) -> int:
        return WRITE_BYTES


class Metadata(Files):
    """`fs/getMetadata` of one small file."""

    def __init__(self) -> None:
        super().__init__()
        self._path = self.folder / "small"
        self._path.write_text("hello")

    def call(self) -> tuple[str, dict[str, Any]]:
        return "fs/getMetadata", {"path": self._path.as_uri()}

    def check(self, result: bytes, contender: Contender) -> None:
        if b'"size":5' not in result:
            raise BenchError(f"{contender.name} does not know the file")


class BatchedMetadata(Metadata):
    name = "metadata-batch"
    window = 32
    is_sliding = False
    repeats = 2000
    figures = (Figure("metadata of a file, batches of 32", Unit.PER_SECOND, goal=1.5),)


class WindowedMetadata(Metadata):
    name = "metadata-window"
    window = 32
    repeats = 10_000
    figures = (Figure("metadata of a file, window of 32", Unit.PER_SECOND, goal=1.5),)


class SingleMetadata(Metadata):
    name = "metadata-single"
    repeats = 2000
    figures = (Figure("metadata of a file, one at a time", Unit.PER_SECOND, goal=0.8),)


class Walk(Files):
    name = "walk"
    repeats = 5
    figures = (Figure("walks over 10000 entries", Unit.PER_SECOND, goal=1.5),)

    directories: ClassVar[int] = 100
    files: ClassVar[int] = 99

    def __init__(self) -> None:
        super().__init__()
        for number in range(self.directories):
            directory = self.folder / f"directory-{number:03}"
            directory.mkdir()
            for file in range(self.files):
                (directory / f"file-{file:03}.txt").touch()

    def call(self) -> tuple[str, dict[str, Any]]:
        options = {
            "maxDepth": 64,
            "maxDirectories": 10_000,
            "maxEntries": 50_000,
            "followDirectorySymlinks": False,
        }
        return "fs/walk", {"path": self.folder.as_uri(), "options": options}

    def check(self, result: bytes, contender: Contender) -> None:
        if result.count(b'"kind"') != self.directories * (self.files + 1):
            raise BenchError(f"{contender.name} did not walk everything")
