"""What the tests of the spawner share: requests, their outcome, and who is still alive."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Mapping, Sequence

import pytest

from paddock.errors import SpawnError
from paddock.process.spawn_request import SpawnRequest
from paddock.process.spawner import ExitReport, Spawner

PYTHON = sys.executable
SLEEP_FOREVER = "while :; do sleep 1000; done"
BASE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def ignore_exit(report: ExitReport) -> None:
    """For processes whose end the test learns in another way."""


def unexpected_loss() -> None:
    raise AssertionError("the spawner was lost")


def request_for(
    program: str,
    *arguments: str,
    fds: tuple[int, ...],
    env: Mapping[str, str] = BASE_ENV,
    cwd: str = "/",
    argv: Sequence[str] | None = None,
    rlimits: Mapping[int, tuple[int, int]] | None = None,
    is_terminal: bool = False,
    inherited: tuple[int, ...] = (),
    is_shielded: bool = False,
) -> SpawnRequest:
    return SpawnRequest(
        program=program,
        argv=(program, *arguments) if argv is None else argv,
        cwd=cwd,
        env=env,
        fds=fds,
        is_terminal=is_terminal,
        rlimits=rlimits or {},
        inherited=inherited,
        is_shielded=is_shielded,
    )


async def run(spawner: Spawner, request: SpawnRequest) -> ExitReport:
    exited: asyncio.Future[ExitReport] = asyncio.get_running_loop().create_future()
    spawned = await spawner.spawn(request, exited.set_result)
    try:
        return await exited
    finally:
        os.close(spawned.pidfd)


async def readable(fd: int) -> None:
    """Wait without a thread, which a time limit could not interrupt."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(fd, event.set)
    try:
        await event.wait()
    finally:
        loop.remove_reader(fd)


async def read_to_end(fd: int) -> bytes:
    """Everything until the last writer is gone; a terminal says that with EIO."""
    chunks: list[bytes] = []
    while True:
        await readable(fd)
        try:
            chunk = os.read(fd, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            chunk = b""
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


async def output_of(
    spawner: Spawner,
    program: str,
    *arguments: str,
    env: Mapping[str, str] = BASE_ENV,
    cwd: str = "/",
    argv: Sequence[str] | None = None,
    rlimits: Mapping[int, tuple[int, int]] | None = None,
    inherited: tuple[int, ...] = (),
    is_shielded: bool = False,
) -> bytes:
    """Stdout of a program that has to succeed."""
    read_end, write_end = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        fds = (null, write_end, 2)
        request = request_for(
            program,
            *arguments,
            fds=fds,
            env=env,
            cwd=cwd,
            argv=argv,
            rlimits=rlimits,
            inherited=inherited,
            is_shielded=is_shielded,
        )
        reading = asyncio.create_task(read_to_end(read_end))
        try:
            report = await run(spawner, request)
        finally:
            os.close(write_end)
            output = await reading
        assert report.exit_code == 0
        return output
    finally:
        os.close(read_end)
        os.close(null)


async def failure_of(spawner: Spawner, request: SpawnRequest) -> tuple[str, int]:
    with pytest.raises(SpawnError) as caught:
        await spawner.spawn(request, ignore_exit)
    return caught.value.stage, caught.value.errno


def open_fds(pid: int | str = "self") -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
