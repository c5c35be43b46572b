"""Paddock's client drives the peer's server: everything that the reference protocol has."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

import paddock
from paddock.errors import CapabilityMissing, OperationFailed, RequestError, RunTimeout
from tests.interop.peer_profile import WORKSPACE_ALONE


async def test_a_command_runs_and_both_streams_come_back(peer_url: str) -> None:
    async with paddock.connect(peer_url) as box:
        done = await box.run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"])

    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 3)


async def test_many_commands_at_once_do_not_mix(peer_url: str) -> None:
    async with paddock.connect(peer_url) as box:
        runs = [box.run(["/bin/echo", str(index)]) for index in range(40)]
        done = await asyncio.gather(*runs)

    assert [one.stdout for one in done] == [f"{index}\n".encode() for index in range(40)]


async def test_large_output_arrives_whole_though_events_come_out_of_order(peer_url: str) -> None:
    script = "seq 1 200000; seq 1 100000 >&2"
    async with paddock.connect(peer_url) as box:
        done = await box.run(["/bin/sh", "-c", script])

    def digest(last: int) -> str:
        return hashlib.sha256(b"".join(b"%d\n" % number for number in range(1, last + 1))).hexdigest()

    assert hashlib.sha256(done.stdout).hexdigest() == digest(200_000)
    assert hashlib.sha256(done.stderr).hexdigest() == digest(100_000)


async def test_a_terminal_is_written_to_and_interrupted(peer_url: str) -> None:
    async with paddock.connect(peer_url) as box:
        process = await box.start(["/bin/cat"], tty=True)
        await process.write(b"hello\n")
        received = b""
        async for output in process:
            received += output.data
            if received.count(b"hello") == 2:
                await process.write(b"\x03")
        assert process.is_closed


async def test_a_process_is_interrupted_and_killed(peer_url: str) -> None:
    async with paddock.connect(peer_url) as box:
        first = await box.start(["/bin/sleep", "1000"])
        await first.signal("INT")
        assert await first.wait(30) == 130
        second = await box.start(["/bin/sleep", "1000"])
        await second.terminate()
        assert await second.wait(30) == 137


async def test_a_failed_start_is_the_same_exception(peer_url: str) -> None:
    async with paddock.connect(peer_url) as box:
        with pytest.raises(OperationFailed, match="os error 2"):
            await box.start(["/no/such/program"])


async def test_a_timeout_ends_the_command_and_keeps_what_it_wrote(peer_url: str) -> None:
    async with paddock.connect(peer_url) as box:
        with pytest.raises(RunTimeout) as caught:
            await box.run(["/bin/sh", "-c", "echo early; exec sleep 1000"], timeout_s=1)

    assert caught.value.stdout == b"early\n"


async def test_what_the_peer_lacks_is_told_before_anything_is_sent(peer_url: str) -> None:
    async with paddock.connect(peer_url) as box:
        process = await box.start(["/bin/cat"], tty=True)
        with pytest.raises(CapabilityMissing):
            await process.resize(10, 20)
        with pytest.raises(CapabilityMissing):
            await process.snapshot()
        with pytest.raises(CapabilityMissing):
            await box.processes()


async def test_a_profile_that_is_written_out_confines_there_too(peer_url: str, tmp_path: Path) -> None:
    script = f"echo x > {tmp_path}/new"
    async with paddock.connect(peer_url) as box:
        denied = await box.run(["/bin/sh", "-c", script], cwd=tmp_path, sandbox={"type": "read-only"})
        assert (denied.returncode, (tmp_path / "new").exists()) == (2, False)
        assert denied.ending == paddock.Ending(2, sandbox_denied=True)
        allowed = await box.run(["/bin/sh", "-c", script], cwd=tmp_path, sandbox=WORKSPACE_ALONE)
        assert (allowed.returncode, (tmp_path / "new").exists()) == (0, True)
        files = box.fs.confined({"type": "read-only"})
        assert await files.read_file(tmp_path / "new") == b"x\n"
        with pytest.raises(RequestError):
            await files.write_file(tmp_path / "new", b"y")
        named = await box.run(["/bin/sh", "-c", script], cwd=tmp_path, sandbox=":read-only")
        assert named.ending == paddock.Ending(2, sandbox_denied=True)
        with pytest.raises(CapabilityMissing, match="'dev'"):
            await box.run(["/bin/true"], sandbox="dev")
