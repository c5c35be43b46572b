"""The client and the server together, over each transport and over memory."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import paddock
from paddock.client.connection import Connection
from paddock.client.opening import open_box
from paddock.errors import (
    CommandFailed,
    ConnectError,
    ConnectionLost,
    HandshakeRefused,
    NotATerminal,
    ProcessExists,
    ProcessLost,
    RunTimeout,
    SpawnError,
    StdinClosed,
    UnknownProcess,
)
from paddock.transport.link import Accept, Link
from paddock.transport.memory import connect_memory
from tests.interaction.cutting_proxy import CuttingProxy
from tests.processes import children_of, has_ended, watched
from tests.wire import served, shell

PATIENCE_S = 20.0


@asynccontextmanager
async def memory_box() -> AsyncIterator[paddock.Box]:
    async with served() as server:

        async def dial(accept: Accept) -> Link:
            return connect_memory(server.accept, accept)[1]

        async with await open_box(Connection(), dial, client_name="test") as box:
            yield box


@pytest.fixture(params=["memory", "websocket", "unix", "private"])
async def box(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[paddock.Box]:
    async with AsyncExitStack() as stack:
        match request.param:
            case "memory":
                yield await stack.enter_async_context(memory_box())
            case "websocket":
                server = await stack.enter_async_context(served())
                yield await stack.enter_async_context(paddock.connect(server.url))
            case "unix":
                server = await stack.enter_async_context(served(listen=f"unix://{tmp_path}/socket"))
                yield await stack.enter_async_context(paddock.connect(server.url))
            case "private":
                yield await stack.enter_async_context(paddock.connect())


# --- over every transport ------------------------------------------------


async def test_a_command_runs_and_tells_what_it_wrote(box: paddock.Box) -> None:
    done = await box.run(shell("echo out; echo err >&2; exit 3"))
    assert (done.argv, done.returncode) == (shell("echo out; echo err >&2; exit 3"), 3)
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert box.session_id
    assert box.has("processResize")


async def test_ten_megabytes_go_in_and_come_out_unchanged(box: paddock.Box) -> None:
    data = bytes(range(256)) * 40_000
    done = await box.run(["cat"], input=data)
    assert done.stdout == data


async def test_many_commands_at_once_do_not_mix_their_output(box: paddock.Box) -> None:
    runs = [box.run(shell(f"head -c 100000 /dev/zero | tr '\\0' {letter}")) for letter in "abcdefgh"]
    for letter, done in zip("abcdefgh", await asyncio.gather(*runs), strict=True):
        assert done.stdout == letter.encode() * 100_000


# --- processes -----------------------------------------------------------


async def test_a_conversation_with_a_process_that_stays() -> None:
    async with memory_box() as box, await box.start(["cat"], stdin=True) as process:
        reader = aiter(process)
        for line in (b"one\n", b"two\n"):
            await process.write(line)
            assert (await anext(reader)).data == line
        await process.close_stdin()
        await process.close_stdin()
        assert await process.wait() == 0
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
        with pytest.raises(StdinClosed):
            await process.write(b"late")


async def read_until(reader: AsyncIterator[paddock.Output], wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        seen += (await anext(reader)).data
    return seen


async def test_a_terminal_has_the_size_that_was_asked_for_and_can_be_resized() -> None:
    script = "stty size; trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
    size = paddock.TerminalSize(rows=31, cols=97)
    async with memory_box() as box, await box.start(shell(script), tty=size) as process:
        reader = aiter(process)
        assert b"31 97\r\n" in await read_until(reader, b"ready")
        await process.resize(40, 120)
        await read_until(reader, b"40 120\r\n")


async def test_only_a_terminal_has_a_size() -> None:
    async with memory_box() as box, await box.start(["sleep", "60"]) as process:
        with pytest.raises(NotATerminal) as refusal:
            await process.resize(1, 1)
        assert str(refusal.value) == str(NotATerminal(process.process_id))


async def test_signals_reach_the_process_by_name() -> None:
    async with memory_box() as box:
        for sent, status in (("TERM", 143), (signal.SIGINT, 130), ("SIGKILL", 137)):
            process = await box.start(["sleep", "60"])
            await process.signal(sent)
            assert await process.wait() == status
            await process.signal("TERM")


async def test_terminate_with_a_grace_lets_the_process_clean_up() -> None:
    async with memory_box() as box:
        process = await box.start(
            shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done")
        )
        reader = aiter(process)
        assert (await anext(reader)).data == b"ready\n"
        assert await process.terminate(grace_s=20)
        assert await process.wait() == 7
        assert not await process.terminate()
        assert (await process.communicate())[0] == b"bye\n"


async def test_a_snapshot_shows_what_was_written_although_it_was_read() -> None:
    async with memory_box() as box:
        process = await box.start(shell("echo out; echo err >&2"))
        await process.communicate()
        snapshot = await process.snapshot()
        assert (snapshot.stdout, snapshot.stderr, snapshot.running) == (b"out\n", b"err\n", False)


async def test_the_session_lists_its_processes() -> None:
    async with memory_box() as box:
        process = await box.start(["sleep", "60"], process_id="sleeper", cwd="/")
        (listed,) = await box.processes()
        assert (listed.process_id, listed.argv, listed.running) == ("sleeper", ["sleep", "60"], True)
        await process.terminate()


async def test_waiting_without_reading_works_for_a_process_that_writes_a_lot() -> None:
    async with memory_box() as box:
        process = await box.start(["head", "-c", "100000000", "/dev/zero"])
        assert await process.wait() == 0
        with pytest.raises(paddock.OutputOverrun):
            await process.communicate()


async def test_a_start_with_a_key_happens_once() -> None:
    async with memory_box() as box:
        first = await box.start(["sleep", "60"], idempotency_key="k")
        assert await box.start(["sleep", "60"], idempotency_key="k") is first
        assert len(await box.processes()) == 1
        await first.terminate()


# --- environment ---------------------------------------------------------


async def test_directory_and_environment_are_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    monkeypatch.setenv("MY_TOKEN", "secret")
    odd = tmp_path / "a b%c"
    odd.mkdir()
    script = 'pwd; echo "$INHERITED,$MY_TOKEN,$EXTRA"'
    async with memory_box() as box:
        inherited = await box.run(shell(script), cwd=odd, extra_env={"EXTRA": "1"})
        exact = await box.run(["/usr/bin/env"], env={"ONLY": "this"})
    assert inherited.stdout.decode() == f"{odd}\nyes,,1\n"
    assert exact.stdout == b"ONLY=this\n"


# --- failures ------------------------------------------------------------


async def test_a_program_that_does_not_exist_is_an_error_that_names_it() -> None:
    async with memory_box() as box:
        with pytest.raises(SpawnError, match=r"can't start '/no/such': No such file") as failure:
            await box.run(["/no/such"])
        assert (failure.value.stage, failure.value.errno) == ("exec", errno.ENOENT)


async def test_refusals_are_the_exceptions_that_the_server_raised() -> None:
    async with memory_box() as box, await box.start(["sleep", "1000"], process_id="p") as process:
        with pytest.raises(ProcessExists):
            await box.start(["true"], process_id="p")
        with pytest.raises(StdinClosed):
            await process.close_stdin()
        with pytest.raises(UnknownProcess):
            await box.attach("q")
        with pytest.raises(SpawnError, match="argument 1"):
            await box.run(["echo", "\0"])


async def test_check_turns_a_bad_status_into_an_error_with_the_output() -> None:
    async with memory_box() as box:
        with pytest.raises(CommandFailed, match="ended with status 9") as failure:
            await box.run(shell("echo why >&2; exit 9"), check=True)
        assert (failure.value.returncode, failure.value.stderr) == (9, b"why\n")
        assert (await box.run(["true"], check=True)).returncode == 0


async def test_a_run_that_takes_too_long_is_killed_with_its_children() -> None:
    async with memory_box() as box:
        with pytest.raises(RunTimeout) as timeout:
            await box.run(shell("echo before; sleep 60 & wait"), timeout_s=0.3)
        assert timeout.value.stdout in (b"before\n", b"")
        (listed,) = await box.processes()
        assert listed.exit_code == 137


async def test_a_server_that_is_gone_is_a_lost_connection() -> None:
    async with served() as server, CuttingProxy(server.url) as proxy:
        box = await paddock.connect(proxy.url, reconnect=False)
        process = await box.start(["sleep", "60"])
        waiting = asyncio.create_task(process.communicate())
        listing = asyncio.create_task(box.processes())
        proxy.break_all()
        with pytest.raises(ConnectionLost):
            await listing
        with pytest.raises(ProcessLost):
            await waiting
        await box.aclose()


async def test_a_server_that_ends_tells_how_its_processes_did() -> None:
    async with served() as server:
        box = await paddock.connect(server.url, reconnect=False)
        process = await box.start(["sleep", "60"])
    assert await process.wait() == 128 + signal.SIGTERM
    with pytest.raises(ConnectionLost):
        await box.processes()
    await box.aclose()


async def test_no_server_no_connection() -> None:
    async with served() as server:
        url = server.url
    with pytest.raises(ConnectError, match=url):
        await paddock.connect(url)
    with pytest.raises(ConnectError, match="expected ws://"):
        await paddock.connect("http://127.0.0.1:1")
    with pytest.raises(ConnectError, match="must be absolute"):
        await paddock.connect("unix://relative.sock")


async def test_a_server_that_is_none_of_ours_is_told_apart() -> None:
    async with served() as server:
        with pytest.raises(HandshakeRefused) as refusal:
            await paddock.connect(f"{server.url}/elsewhere")
        assert refusal.value.status == 404


async def test_a_server_that_accepts_and_says_nothing_times_out() -> None:
    # The kernel completes the connection, and nobody ever reads from it.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        with pytest.raises(ConnectError, match="no answer within"):
            await paddock.connect(f"ws://{host}:{port}", connect_timeout_s=0.05)


# --- the end -------------------------------------------------------------


async def test_closing_the_box_ends_what_it_started() -> None:
    async with served() as server, paddock.connect(server.url) as box:
        process = await box.start(shell("echo $$; exec sleep 60"))
        pid = int((await anext(aiter(process))).data)
        with watched(pid) as pidfd:
            await box.aclose()
            assert await asyncio.to_thread(has_ended, pidfd, PATIENCE_S)


async def test_a_private_server_ends_with_its_box() -> None:
    before = set(children_of_this())
    async with paddock.connect() as box:
        (server,) = set(children_of_this()) - before
        process = await box.start(shell("echo $$; trap '' TERM; while :; do sleep 0.05; done"))
        pid = int((await anext(aiter(process))).data)
        with watched(pid) as pidfd, watched(server) as serverfd:
            await box.aclose()
            assert has_ended(serverfd, 0)
            assert await asyncio.to_thread(has_ended, pidfd, PATIENCE_S)


def children_of_this() -> list[int]:
    return children_of(os.getpid())


async def test_a_private_server_that_dies_is_a_lost_connection() -> None:
    before = set(children_of_this())
    async with paddock.connect() as box:
        (server,) = set(children_of_this()) - before
        process = await box.start(["sleep", "60"])
        os.kill(server, signal.SIGKILL)
        with pytest.raises(ProcessLost):
            await process.wait()
        assert process.exit_code is None
        assert process.state == "lost"
