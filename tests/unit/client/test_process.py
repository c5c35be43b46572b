"""The handle of a process, against a server that a test scripts."""

from __future__ import annotations

import asyncio
import base64
import signal
from typing import Any

import pytest

from paddock.client.inbox import Output
from paddock.client.process import PIECE_BYTES, UNANSWERED_PIECES
from paddock.errors import (
    CapabilityMissing,
    InvalidRequest,
    OperationFailed,
    RequestTimeout,
    RunTimeout,
    StdinClosed,
    UnknownProcess,
)
from paddock.model.stream import Stream
from tests.unit.client.scripted_server import BRIEF_S, EVERYTHING, scripted

REFERENCE: tuple[str, ...] = ()
"""The capabilities of a server of the reference protocol, as far as they matter here."""


# --- start ---------------------------------------------------------------


async def test_events_that_overtake_the_answer_to_the_start_are_not_lost() -> None:
    async with scripted(REFERENCE) as (box, server):
        running = asyncio.create_task(box.run(["program"]))
        request = await server.next("process/start")
        process_id = request["params"]["processId"]
        server.exited(process_id, 2, 4)
        server.closed(process_id, 3)
        server.output(process_id, 1, b"early")
        server.started(request)
        done = await running
        assert (done.returncode, done.stdout) == (4, b"early")


async def test_a_start_that_fails_leaves_its_id_free() -> None:
    async with scripted() as (box, server):
        starting = asyncio.create_task(box.start(["nope"], process_id="p"))
        server.refuse(await server.next("process/start"), -32603, "No such file or directory (os error 2)")
        with pytest.raises(OperationFailed, match="No such file"):
            await starting
        await server.start(box, "p")


async def test_a_start_that_is_cancelled_kills_what_may_have_been_started() -> None:
    async with scripted() as (box, server):
        starting = asyncio.create_task(box.start(["program"], process_id="p"))
        await server.next("process/start")
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert (await server.next("process/terminate"))["params"]["processId"] == "p"


async def test_a_start_with_a_key_that_timed_out_can_be_made_again_and_finds_its_output() -> None:
    async with scripted(request_timeout_s=BRIEF_S) as (box, server):
        with pytest.raises(RequestTimeout):
            await box.start(["program"], process_id="first", idempotency_key="k")
        await server.next("process/start")
        server.output("first", 1, b"kept")
        again = asyncio.create_task(box.start(["program"], process_id="second", idempotency_key="k"))
        request = await server.next("process/start")
        server.answer(request, {"processId": "first", "sandboxType": "none"})
        process = await again
        assert process.process_id == "first"
        assert await anext(aiter(process)) == Output(Stream.STDOUT, b"kept")
        assert not server.has_unread


async def test_two_starts_with_one_key_give_one_handle() -> None:
    async with scripted() as (box, server):
        first = await server.start(box, "p", idempotency_key="k")
        again = asyncio.create_task(box.start(["program"], idempotency_key="k"))
        server.answer(await server.next("process/start"), {"processId": "p", "sandboxType": "none"})
        assert await again is first


# --- output --------------------------------------------------------------


async def test_output_is_yielded_in_the_order_of_its_numbers() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        server.output("p", 3, b"c", "stderr")
        server.output("p", 1, b"a")
        server.closed("p", 5)
        server.exited("p", 4)
        server.output("p", 2, b"b", "stderr")
        assert [output async for output in process] == [
            Output(Stream.STDOUT, b"a"),
            Output(Stream.STDERR, b"b"),
            Output(Stream.STDERR, b"c"),
        ]
        assert process.is_closed


async def test_the_status_is_known_before_the_output_has_ended() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        server.exited("p", 1, 3)
        assert await process.wait() == 3
        assert process.exit_code == 3
        assert not process.is_closed


async def test_a_wait_that_times_out_leaves_the_process_alone() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        with pytest.raises(TimeoutError):
            await process.wait(timeout_s=0)
        assert not server.has_unread
        server.exited("p", 1, 0)
        assert await process.wait(timeout_s=20) == 0


async def test_a_terminals_output_is_all_stdout() -> None:
    async with scripted() as (box, server):
        process = await server.start(box, tty=True)
        gathering = asyncio.create_task(process.communicate())
        server.answer(await server.next("process/closeStdin"), {})
        server.output("p", 1, b"screen", "pty")
        server.exited("p", 2)
        server.closed("p", 3)
        assert await gathering == (b"screen", b"")


# --- input ---------------------------------------------------------------


async def test_a_big_write_goes_out_in_pieces_in_order_with_a_bounded_number_unanswered() -> None:
    async with scripted() as (box, server):
        process = await server.start(box, stdin=True)
        data = bytes(range(256)) * (PIECE_BYTES // 256) * (UNANSWERED_PIECES + 3) + b"tail"
        writing = asyncio.create_task(process.write(data))
        requests = [await server.next("process/write") for _ in range(UNANSWERED_PIECES)]
        assert not server.has_unread
        for _ in range(4):
            server.answer(requests[-UNANSWERED_PIECES], {"status": "accepted"})
            requests.append(await server.next("process/write"))
        for request in requests[-UNANSWERED_PIECES:]:
            server.answer(request, {"status": "accepted"})
        await writing
        assert b"".join(base64.b64decode(request["params"]["chunk"]) for request in requests) == data
        assert len({request["params"]["writeId"] for request in requests}) == len(requests)


async def test_a_server_that_does_not_promise_their_order_gets_one_piece_at_a_time() -> None:
    async with scripted(REFERENCE) as (box, server):
        process = await server.start(box, stdin=True)
        writing = asyncio.create_task(process.write(b"a" * PIECE_BYTES + b"b"))
        request = await server.next("process/write")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not server.has_unread
        server.answer(request, {"status": "accepted"})
        server.answer(await server.next("process/write"), {"status": "accepted"})
        await writing


async def test_writes_of_two_tasks_do_not_mix() -> None:
    async with scripted() as (box, server):
        process = await server.start(box, stdin=True)
        first = asyncio.create_task(process.write(b"a" * (PIECE_BYTES + 1)))
        second = asyncio.create_task(process.write(b"b"))
        for expected in (b"a" * PIECE_BYTES, b"a"):
            request = await server.next("process/write")
            assert base64.b64decode(request["params"]["chunk"]) == expected
            server.answer(request, {"status": "accepted"})
        await first
        request = await server.next("process/write")
        assert base64.b64decode(request["params"]["chunk"]) == b"b"
        server.answer(request, {"status": "accepted"})
        await second


@pytest.mark.parametrize(
    ("status", "error"),
    [("stdinClosed", StdinClosed), ("unknownProcess", UnknownProcess), ("starting", InvalidRequest)],
)
async def test_a_write_that_is_not_taken_is_an_error(status: str, error: type[Exception]) -> None:
    async with scripted() as (box, server):
        process = await server.start(box, stdin=True)
        writing = asyncio.create_task(process.write(b"x" * 3 * PIECE_BYTES))
        for _ in range(3):
            server.answer(await server.next("process/write"), {"status": status})
        with pytest.raises(error):
            await writing


async def test_a_write_has_no_timeout_because_the_process_may_take_its_time() -> None:
    async with scripted(request_timeout_s=BRIEF_S) as (box, server):
        process = await server.start(box, stdin=True)
        writing = asyncio.create_task(process.write(b"x"))
        request = await server.next("process/write")
        with pytest.raises(RequestTimeout):
            await box.processes()
        server.answer(request, {"status": "accepted"})
        await writing


async def test_input_that_the_process_does_not_want_is_no_failure_of_the_command() -> None:
    async with scripted() as (box, server):
        running = asyncio.create_task(box.run(["true"], input=b"x"))
        request = await server.next("process/start")
        process_id = request["params"]["processId"]
        assert request["params"]["pipeStdin"] is True
        server.started(request)
        server.answer(await server.next("process/write"), {"status": "stdinClosed"})
        server.exited(process_id, 1, 0)
        server.closed(process_id, 2)
        assert (await running).returncode == 0


async def test_a_process_that_closes_with_a_write_unanswered_ends_the_run() -> None:
    async with scripted() as (box, server):
        running = asyncio.create_task(box.run(["true"], input=b"x"))
        request = await server.next("process/start")
        server.started(request)
        await server.next("process/write")
        server.exited(request["params"]["processId"], 1, 0)
        server.closed(request["params"]["processId"], 2)
        assert (await running).returncode == 0


async def test_input_for_a_process_without_stdin_is_refused_at_once() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        with pytest.raises(StdinClosed):
            await process.communicate(b"x")
        assert not server.has_unread


# --- the end -------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("INT", "interrupt"),
        ("interrupt", "interrupt"),
        (signal.SIGINT, "interrupt"),
        ("TERM", "SIGTERM"),
        ("SIGUSR1", "SIGUSR1"),
        (signal.SIGHUP, "SIGHUP"),
    ],
)
async def test_a_signal_may_be_given_by_any_of_its_names(given: str | signal.Signals, sent: str) -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        signalling = asyncio.create_task(process.signal(given))
        request = await server.next("process/signal")
        assert (request["params"]["processId"], request["params"]["signal"]) == ("p", sent)
        server.answer(request, {})
        await signalling


async def test_a_signal_that_does_not_exist_is_refused_at_once() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        with pytest.raises(ValueError, match="unknown signal 'NOPE'"):
            await process.signal("NOPE")
        assert not server.has_unread


async def test_terminate_is_a_kill_unless_a_grace_is_given() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        for grace_s, mode in ((None, None), (1.5, {"graceful": {"timeoutMs": 1500}})):
            ending = asyncio.create_task(process.terminate(grace_s))
            request = await server.next("process/terminate")
            assert request["params"]["mode"] == mode
            server.answer(request, {"running": True})
            assert await ending is True


async def test_leaving_the_block_kills_a_process_that_still_runs_and_waits_for_it() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)

        async def use() -> None:
            async with process:
                pass

        using = asyncio.create_task(use())
        await server.next("process/terminate")
        assert not using.done()
        server.exited("p", 1, 137)
        await using


async def test_leaving_the_block_does_nothing_to_a_process_that_has_exited() -> None:
    async with scripted() as (box, server):
        process = await server.start(box)
        async with process:
            server.exited("p", 1, 0)
            await process.wait()
        assert not server.has_unread


async def test_a_run_that_takes_too_long_is_killed_and_its_output_is_in_the_error() -> None:
    async with scripted() as (box, server):
        running = asyncio.create_task(box.run(["slow", "command"], timeout_s=0.01))
        request = await server.next("process/start")
        process_id = request["params"]["processId"]
        server.started(request)
        server.output(process_id, 1, b"so far")
        await server.next("process/terminate")
        server.output(process_id, 2, b", and no further")
        server.exited(process_id, 3, 137)
        server.closed(process_id, 4)
        with pytest.raises(RunTimeout, match="`slow command` did not end within") as timeout:
            await running
        assert timeout.value.stdout == b"so far, and no further"


async def test_a_cancelled_run_kills_its_process() -> None:
    async with scripted() as (box, server):
        running = asyncio.create_task(box.run(["program"]))
        server.started(await server.next("process/start"))
        for _ in range(10):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await server.next("process/terminate")


# --- servers that can do less --------------------------------------------


async def test_what_a_server_lacks_is_refused_clearly_and_nothing_is_sent() -> None:
    async with scripted(REFERENCE) as (box, server):
        process = await server.start(box, stdin=True)
        attempts: dict[str, Any] = {
            "processCloseStdin": process.close_stdin(),
            "processResize": process.resize(24, 80),
            "processSignals": process.signal("TERM"),
            "processTerminateGraceful": process.terminate(grace_s=1),
            "processSnapshot": process.snapshot(),
            "processList": box.processes(),
            "startIdempotency": box.start(["ls"], idempotency_key="k"),
        }
        for capability, attempt in attempts.items():
            assert capability in EVERYTHING
            assert not box.has(capability)
            with pytest.raises(CapabilityMissing, match=capability):
                await attempt
        for attempt in (box.run(["cat"], input=b""), process.communicate(b"")):
            with pytest.raises(CapabilityMissing, match="close stdin"):
                await attempt
        assert not server.has_unread


async def test_such_a_server_can_still_be_interrupted_and_read_to_the_end() -> None:
    async with scripted(REFERENCE) as (box, server):
        process = await server.start(box, stdin=True)
        signalling = asyncio.create_task(process.signal("INT"))
        server.answer(await server.next("process/signal"), {})
        await signalling
        server.output("p", 1, b"bye")
        server.exited("p", 2, 130)
        server.closed("p", 3)
        assert await process.communicate() == (b"bye", b"")
        assert process.exit_code == 130


# --- the box -------------------------------------------------------------


async def test_closing_the_box_ends_its_processes_except_those_to_be_kept_alive() -> None:
    async with scripted() as (box, server):
        await server.start(box, "mortal")
        await server.start(box, "kept", keep_alive=True)
        finished = await server.start(box, "finished")
        server.exited("finished", 1)
        server.closed("finished", 2)
        await finished.communicate()
        closing = asyncio.create_task(box.aclose())
        request = await server.next("process/terminate")
        assert request["params"]["processId"] == "mortal"
        assert request["params"]["mode"] == {"graceful": {"timeoutMs": 2000}}
        server.answer(request, {"running": True})
        await closing
        await server.is_link_closed.wait()
        assert not server.has_unread
        await box.aclose()
