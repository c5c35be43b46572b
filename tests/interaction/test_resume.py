"""A client that loses its connection to a real server, and what it finds when it is back."""

from __future__ import annotations

import asyncio
import itertools
import operator
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import paddock
from paddock.errors import HandshakeRefused, ProcessLost, UnknownProcess
from tests.interaction.cutting_proxy import CuttingProxy
from tests.wire import served, shell

AT_ONCE = paddock.ReconnectPolicy(min_delay_s=0, max_delay_s=0, attached_delay_s=0.001)
KIB = 1024


async def read_until(reader: paddock.Process, wanted: bytes) -> bytes:
    seen = b""
    async for output in reader:
        seen += output.data
        if wanted in seen:
            break
    return seen


def fifos(directory: Path, *names: str) -> list[Path]:
    paths = [directory / name for name in names]
    for path in paths:
        os.mkfifo(path)
    return paths


async def test_a_process_runs_on_while_the_client_is_away_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    gate, done = fifos(tmp_path, "gate", "done")
    script = f"echo before; read x < {gate}; echo during; echo > {done}; read x; echo after $x"
    async with (
        served() as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE) as box,
    ):
        process = await box.start(shell(script), stdin=True)
        assert await read_until(process, b"before\n") == b"before\n"
        session_id = box.session_id
        proxy.freeze_all()
        await asyncio.to_thread(gate.write_text, "\n")
        await asyncio.to_thread(done.read_text)
        proxy.break_all()
        await process.write(b"that\n")
        assert await process.communicate() == (b"during\nafter that\n", b"")
        assert (await process.wait(), box.session_id) == (0, session_id)


async def test_a_command_that_is_cut_off_again_and_again_is_one_command() -> None:
    async with (
        served() as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE) as box,
    ):
        running = asyncio.create_task(box.run(["sh", "-c", "cat; sleep 0.2; exit 5"], input=b"in"))
        # Each time a little later: on a busy machine no connection would live long enough to be of use.
        pauses_s = itertools.accumulate(itertools.repeat(1.05), operator.mul, initial=0.002)
        while not running.done():
            proxy.break_all()
            await asyncio.wait([running], timeout=next(pauses_s))
        done = await running
        assert (done.returncode, done.stdout) == (5, b"in")
        assert len(await box.processes()) == 1


async def test_what_the_server_could_not_keep_is_a_gap_in_its_place(tmp_path: Path) -> None:
    gate, done = fifos(tmp_path, "gate", "done")
    size = 300_000
    script = f"echo head; read x < {gate}; head -c {size} /dev/zero; echo tail; echo > {done}"
    async with (
        served(retained_output_bytes_per_process=64 * KIB) as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE) as box,
    ):
        process = await box.start(shell(script))
        await read_until(process, b"head\n")
        proxy.freeze_all()
        await asyncio.to_thread(gate.write_text, "\n")
        await asyncio.to_thread(done.read_text)
        proxy.break_all()
        items = [item async for item in process.output(on_gap="yield")]
        kept = b"".join(item.data for item in items if isinstance(item, paddock.Output))
        (gap,) = (item for item in items if isinstance(item, paddock.Gap))
        assert gap.size_bytes == size + len(b"tail\n") - len(kept)
        assert kept.endswith(b"\0tail\n")


async def test_a_session_that_has_expired_is_a_loss_and_the_box_goes_on() -> None:
    async with (
        served(session_ttl_s=0) as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE) as box,
    ):
        process = await box.start(["sleep", "60"])
        session_id = box.session_id
        proxy.break_all()
        with pytest.raises(ProcessLost, match="session is gone"):
            await process.wait()
        assert (process.state, process.exit_code) == ("lost", None)
        assert (await box.run(["echo", "on"])).stdout == b"on\n"
        assert box.session_id != session_id


async def test_a_server_that_was_restarted_has_lost_the_processes() -> None:
    async with AsyncExitStack() as stack:
        async with served() as server:
            proxy = await stack.enter_async_context(CuttingProxy(server.url))
            box = await stack.enter_async_context(paddock.connect(proxy.url))
            process = await box.start(["sleep", "60"])
            # The server's last words, how the process ended, get lost too.
            proxy.hang_up_all()
        await stack.enter_async_context(served(listen=server.url))
        proxy.break_all()
        with pytest.raises(ProcessLost):
            await process.wait()
        assert (await box.run(["echo", "on"])).stdout == b"on\n"


async def test_a_link_that_is_dead_without_a_word_is_noticed_by_pings() -> None:
    async with (
        served() as server,
        CuttingProxy(server.url) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE, ping_interval_s=0.05, ping_timeout_s=0.5) as box,
    ):
        process = await box.start(shell("read x; echo $x"), stdin=True)
        proxy.freeze_all()
        await process.write(b"through\n")
        assert await process.communicate() == (b"through\n", b"")


async def test_another_client_takes_over_where_the_first_left_off(tmp_path: Path) -> None:
    async with served(listen=f"unix://{tmp_path}/socket") as server:
        first = await paddock.connect(server.url)
        process = await first.start(shell("echo one; read x; echo $x"), stdin=True)
        await read_until(process, b"one\n")
        with pytest.raises(paddock.SessionAttached):
            await paddock.connect(server.url, resume=first.session_id)
        await first.detach()
        async with paddock.connect(server.url, resume=first.session_id) as second:
            assert second.session_id == first.session_id
            with pytest.raises(UnknownProcess):
                await second.attach("nonsense")
            again = await second.attach(process.process_id, after_seq=process.read_seq)
            await again.write(b"two\n")
            assert await again.communicate() == (b"two\n", b"")
            whole = await second.attach(process.process_id)
            assert whole is again
        with pytest.raises(paddock.UnknownSession):
            await paddock.connect(server.url, resume="00000000-0000-0000-0000-000000000000")


async def test_a_process_can_be_attached_to_from_its_beginning_even_after_its_end() -> None:
    async with served() as server:
        first = await paddock.connect(server.url)
        process = await first.start(shell("echo out; echo err >&2; exit 3"))
        await process.wait()
        await first.detach()
        async with paddock.connect(server.url, resume=first.session_id) as second:
            again = await second.attach(process.process_id)
            assert await again.communicate() == (b"out\n", b"err\n")
            assert await again.wait() == 3


async def test_a_token_that_expired_ends_the_tries_to_come_back(tmp_path: Path) -> None:
    tokens = iter(("right", "wrong", "right"))
    secret = tmp_path / "token"
    secret.write_text("right")
    async with (
        served(ws_auth="capability-token", ws_token_file=str(secret)) as server,
        CuttingProxy(server.url) as proxy,
    ):
        box = await paddock.connect(proxy.url, token=lambda: next(tokens))
        process = await box.start(["sleep", "60"])
        proxy.break_all()
        with pytest.raises(ProcessLost, match="HTTP 401"):
            await process.wait()
        await box.aclose()
        async with paddock.connect(proxy.url, token=lambda: next(tokens)) as other:
            assert (await other.run(["true"])).returncode == 0
        with pytest.raises(HandshakeRefused):
            await paddock.connect(proxy.url)
