"""What the spawner leaves behind: after many spawns, cancellation, and its own or the server's death."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import select
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.errors import SpawnerLost
from paddock.process import spawner as spawner_module
from paddock.process.spawn_request import SpawnStage
from paddock.process.spawner import Spawner
from tests.processes import children_of
from tests.unit.process.spawning import (
    PYTHON,
    SLEEP_FOREVER,
    failure_of,
    ignore_exit,
    open_fds,
    output_of,
    read_to_end,
    readable,
    request_for,
    run,
    unexpected_loss,
)


@pytest.fixture
async def spawner() -> AsyncIterator[Spawner]:
    running = await Spawner.start(unexpected_loss)
    yield running
    await running.aclose()


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_RDWR)
    yield fd
    os.close(fd)


# -- many at once, and what is left over


async def test_five_hundred_concurrent_spawns_each_get_their_own_answer(spawner: Spawner, null: int) -> None:
    fds_before = (open_fds(), open_fds(spawner.helper_pid))
    requests = [request_for("/bin/sh", "-c", f"exit {index % 200}", fds=(null,) * 3) for index in range(500)]
    reports = await asyncio.gather(*(run(spawner, request) for request in requests))
    assert [report.exit_code for report in reports] == [index % 200 for index in range(500)]
    assert (open_fds(), open_fds(spawner.helper_pid)) == fds_before


async def test_large_and_small_requests_keep_their_descriptors_apart(spawner: Spawner) -> None:
    # The large ones fill the socket several times over, so that writes are cut at arbitrary places.
    sizes = [100_000 if index % 3 == 0 else 1 for index in range(40)]
    script = 'echo "$1 ${#2}"'
    outputs = await asyncio.gather(
        *(
            output_of(spawner, "/bin/sh", "-c", script, "sh", str(index), "x" * size)
            for index, size in enumerate(sizes)
        )
    )
    assert outputs == [f"{index} {size}\n".encode() for index, size in enumerate(sizes)]


async def test_failed_spawns_leave_no_descriptor_and_no_zombie(spawner: Spawner, null: int) -> None:
    fds_before = (open_fds(), open_fds(spawner.helper_pid))
    for _ in range(100):
        await failure_of(spawner, request_for("/nonexistent", fds=(null,) * 3))
    assert (open_fds(), open_fds(spawner.helper_pid)) == fds_before
    assert children_of(spawner.helper_pid) == []


@contextmanager
def descriptor_table_full() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_process_whose_pidfd_cannot_be_received_is_killed(spawner: Spawner, null: int) -> None:
    read_end, write_end = os.pipe()
    request = request_for("/bin/sh", "-c", SLEEP_FOREVER, fds=(null, write_end, null))
    with descriptor_table_full():
        assert await failure_of(spawner, request) == (SpawnStage.REQUEST, errno.EMFILE)
    os.close(write_end)
    assert await read_to_end(read_end) == b""
    os.close(read_end)
    assert (await run(spawner, request_for("/bin/true", fds=(null,) * 3))).exit_code == 0


async def test_cancelled_spawns_leave_no_process_and_no_descriptor(spawner: Spawner, null: int) -> None:
    fds_before = (open_fds(), open_fds(spawner.helper_pid))
    read_end, write_end = os.pipe()
    request = request_for("/bin/sh", "-c", SLEEP_FOREVER, fds=(null, write_end, null))
    # More than are ever under way, so that some are cancelled before they were sent.
    tasks = [
        asyncio.create_task(spawner.spawn(request, ignore_exit))
        for _ in range(spawner_module.IN_FLIGHT_LIMIT + 20)
    ]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    os.close(write_end)
    # The end of file comes when the last holder of the pipe is dead, or was never started.
    assert await read_to_end(read_end) == b""
    os.close(read_end)
    assert (await run(spawner, request_for("/bin/true", fds=(null,) * 3))).exit_code == 0
    assert (open_fds(), open_fds(spawner.helper_pid)) == fds_before


async def test_spawn_cancelled_as_the_answer_arrives_leaves_no_process(spawner: Spawner, null: int) -> None:
    fds_before = open_fds()
    read_end, write_end = os.pipe()
    request = request_for("/bin/sh", "-c", SLEEP_FOREVER, fds=(null, write_end, null))
    task = asyncio.create_task(spawner.spawn(request, ignore_exit))
    await asyncio.sleep(0)
    # The loop is held up until the answer is there, so that both happen in one iteration.
    select.select([spawner._connection], [], [])
    spawner._read()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    os.close(write_end)
    assert await read_to_end(read_end) == b""
    os.close(read_end)
    assert open_fds() == fds_before


# -- the end of the helper, and of the server


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1]
)
async def test_helper_goes_on_after_a_signal(spawner: Spawner, null: int, number: int) -> None:
    os.kill(spawner.helper_pid, number)
    assert (await run(spawner, request_for("/bin/true", fds=(null,) * 3))).exit_code == 0
    assert os.getsid(spawner.helper_pid) == spawner.helper_pid


async def test_killed_helper_is_reported_once_and_takes_its_children_along(null: int) -> None:
    lost: list[str] = []
    spawner = await Spawner.start(lambda: lost.append("lost"))
    spawned = await spawner.spawn(request_for("/bin/sleep", "1000", fds=(null,) * 3), ignore_exit)
    os.kill(spawner.helper_pid, signal.SIGSTOP)
    pending = asyncio.create_task(spawner.spawn(request_for("/bin/true", fds=(null,) * 3), ignore_exit))
    await asyncio.sleep(0)
    os.kill(spawner.helper_pid, signal.SIGKILL)
    with pytest.raises(SpawnerLost):
        await pending
    # A pidfd is readable from the death of its process on.
    await readable(spawned.pidfd)
    os.close(spawned.pidfd)
    with pytest.raises(SpawnerLost):
        await spawner.spawn(request_for("/bin/true", fds=(null,) * 3), ignore_exit)
    await spawner.aclose()
    assert lost == ["lost"]


async def test_missing_helper_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = open_fds()
    monkeypatch.setattr(spawner_module, "HELPER_PATH", tmp_path / "paddock-spawner")
    with pytest.raises(SpawnerLost, match="make native"):
        await Spawner.start(unexpected_loss)
    assert open_fds() == before


async def test_helper_that_ends_at_once_fails_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_fds()
    true = shutil.which("true")
    assert true is not None
    monkeypatch.setattr(spawner_module, "HELPER_PATH", Path(true))
    with pytest.raises(SpawnerLost, match="ended while starting"):
        await Spawner.start(unexpected_loss)
    assert open_fds() == before


async def test_close_kills_everything_and_fails_what_is_pending(null: int) -> None:
    fds_before = open_fds()
    spawner = await Spawner.start(unexpected_loss)
    read_end, write_end = os.pipe()
    daemon = f"trap '' TERM HUP; setsid /bin/sh -c \"trap '' TERM HUP; {SLEEP_FOREVER}\" & {SLEEP_FOREVER}"
    request = request_for("/bin/sh", "-c", daemon, fds=(null, write_end, null))
    spawned = [await spawner.spawn(request, ignore_exit) for _ in range(5)]
    os.close(write_end)
    pending = asyncio.create_task(spawner.spawn(request_for("/bin/true", fds=(null,) * 3), ignore_exit))
    await asyncio.sleep(0)
    await spawner.aclose()
    with pytest.raises(SpawnerLost):
        await pending
    for process in spawned:
        await readable(process.pidfd)
        os.close(process.pidfd)
    # Nobody holds the pipe any more: it would block, not end, if one did.
    os.set_blocking(read_end, False)
    assert os.read(read_end, 1) == b""
    os.close(read_end)
    await spawner.aclose()
    assert open_fds() == fds_before


FLEEING = """
import os, sys, time
deadline = time.monotonic() + 20
os.write(1, b"!")
while time.monotonic() < deadline:
    if os.fork():
        os._exit(0)
    os.setsid()
"""

RESPAWNING = """
import os, time
deadline = time.monotonic() + 20
os.write(1, b"!")
while time.monotonic() < deadline:
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            time.sleep(20)
            os._exit(0)
    for _ in range(4):
        os.waitpid(-1, os.WNOHANG)
    time.sleep(0.001)
"""


@pytest.mark.parametrize("script", [FLEEING, RESPAWNING], ids=["fork-and-exit-chain", "steady-forking"])
async def test_process_that_keeps_forking_does_not_outrun_the_close(null: int, script: str) -> None:
    spawner = await Spawner.start(unexpected_loss)
    read_end, write_end = os.pipe()
    request = request_for(PYTHON, "-ISc", script, fds=(null, write_end, null))
    spawned = await spawner.spawn(request, ignore_exit)
    os.close(write_end)
    await readable(read_end)
    assert os.read(read_end, 1) == b"!"
    await spawner.aclose()
    os.set_blocking(read_end, False)
    assert os.read(read_end, 1) == b""
    os.close(read_end)
    os.close(spawned.pidfd)


FLOODING = """
import os, signal
spawner = os.getppid()
for round in range(1 << 60):
    for _ in range(100):
        os.kill(spawner, signal.SIGCHLD)
    if os.fork() == 0:
        os.fork()
        os._exit(0)
    os.wait()
    if round == 20:
        os.write(1, b"!")
"""


async def test_process_that_floods_the_spawner_does_not_keep_it_from_others(null: int) -> None:
    spawner = await Spawner.start(unexpected_loss)
    pidfds = []
    read_end, write_end = os.pipe()
    for _ in range(4):
        request = request_for(PYTHON, "-ISc", FLOODING, fds=(null, write_end, null))
        pidfds.append((await spawner.spawn(request, ignore_exit)).pidfd)
        await readable(read_end)
        assert os.read(read_end, 1) == b"!"
    reports = [await run(spawner, request_for("/bin/true", fds=(null, null, null))) for _ in range(20)]
    assert {report.exit_code for report in reports} == {0}
    await spawner.aclose()
    for file in (read_end, write_end, *pidfds):
        os.close(file)


SERVER = """
import asyncio, os, sys
from paddock.process.spawner import Spawner, SpawnRequest

async def main():
    spawner = await Spawner.start(lambda: None)
    print("helper", spawner.helper_pid, flush=True)
    forever = "while :; do sleep 1000; done"
    scripts = (
        "echo plain $$; " + forever,
        "trap '' TERM HUP INT; echo stubborn $$; " + forever,
        "(setsid /bin/sh -c 'echo daemon $$; exec sleep 1000' &) ; exit 0",
        "/bin/sh -c 'echo grandchild $$; exec sleep 1000' & wait",
    )
    null = os.open(os.devnull, os.O_RDWR)
    for script in scripts:
        request = SpawnRequest("/bin/sh", ("sh", "-c", script), "/", {}, (null, 1, 2), False)
        await spawner.spawn(request, lambda report: None)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_killing_the_server_leaves_nothing_alive() -> None:
    with subprocess.Popen([PYTHON, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pidfds = {}
        for _ in range(5):
            name, pid = server.stdout.readline().split()
            pidfds[name] = os.pidfd_open(int(pid))
        assert pidfds.keys() == {"helper", "plain", "stubborn", "daemon", "grandchild"}
        server.kill()
        for pidfd in pidfds.values():
            select.select([pidfd], [], [])
            os.close(pidfd)
        # Everything that was started holds the pipe, also what did not give its pid.
        assert server.stdout.read() == ""
    assert server.returncode == -signal.SIGKILL
