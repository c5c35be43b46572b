"""The methods of `process/*`, one promise a test."""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.wire import WireClient, WireError, attach, encode, served, session, shell, start_params

MIB = 1024 * 1024


async def refused(client: WireClient, method: str, params: Any) -> WireError:
    with pytest.raises(WireError) as caught:
        await client.call(method, params)
    return caught.value


# --- start ------------------------------------------------------------------


async def test_io_asks_for_a_terminal_of_a_size() -> None:
    async with session() as client:
        params = start_params("p", "/bin/stty", "size", io={"pty": {"rows": 50, "cols": 132}})
        del params["tty"]
        await client.call("process/start", params)

        assert (await client.finish("p")).streams == {"pty": b"50 132\r\n"}


async def test_io_asks_for_an_open_stdin() -> None:
    async with session() as client:
        params = start_params("p", "/bin/cat", io={"pipe": {"stdin": "open"}})
        del params["tty"]
        await client.call("process/start", params)
        await client.call("process/write", {"processId": "p", "chunk": encode(b"in")})
        await client.call("process/closeStdin", {"processId": "p"})

        assert (await client.finish("p")).streams == {"stdout": b"in"}


PREPARED = {"argv": ["/usr/bin/env"], "cwd": "/", "env": {"A": "1", "NODE_REPL_AUTH_TOKEN": "t"}}


async def test_a_prepared_start_is_refused_by_default_and_exact_when_allowed() -> None:
    params = {"processId": "p", "tty": False, "prepared": PREPARED}
    async with session() as client:
        error = await refused(client, "process/start", params)
        assert error.code == -32600
        assert "allow_prepared_exec" in error.message
    async with session(allow_prepared_exec=True) as client:
        await client.call("process/start", params)
        output = (await client.finish("p")).streams["stdout"]
        assert sorted(output.split()) == [b"A=1", b"NODE_REPL_AUTH_TOKEN=t"]


async def test_direct_starts_can_be_switched_off() -> None:
    async with session(allow_direct_exec=False, allow_prepared_exec=True) as client:
        error = await refused(client, "process/start", start_params("p", "/bin/true"))
        assert error.code == -32600
        await client.call("process/start", {"processId": "p", "tty": False, "prepared": PREPARED})


async def test_the_same_idempotency_key_starts_once() -> None:
    async with session() as client:
        params = start_params("p", "/bin/cat", pipeStdin=True, idempotencyKey="k")
        requests = [
            client.request("process/start", params | {"processId": f"p{index}"}) for index in range(5)
        ]
        answers = [await client.answer(request) for request in requests]

        assert answers == [{"processId": "p0", "sandboxType": "none"}] * 5
        listed = await client.call("process/list")
        assert [process["processId"] for process in listed["processes"]] == ["p0"]


async def test_a_failed_start_frees_its_id_and_its_key() -> None:
    async with session() as client:
        bad = start_params("p", "/no/such", idempotencyKey="k")
        assert (await refused(client, "process/start", bad)).code == -32603
        await client.call("process/start", start_params("p", "/bin/true", idempotencyKey="k"))
        await client.finish("p")


@pytest.mark.parametrize("keys", ["", "kkkkkkkk", "abcdefgh"])
async def test_failed_starts_keep_nothing_of_their_requests(keys: str) -> None:
    """Neither under their keys nor in circles, which only the garbage collector would find."""
    async with session() as client:

        async def fail(number: int) -> None:
            params = start_params(f"p{number}", "/no/such", env={"A": str(number) * MIB})
            key = {"idempotencyKey": keys[number]} if keys else {}
            # The second waits for the first, if they have a key.
            requests = [client.request("process/start", params | key) for _ in range(2 if keys else 1)]
            for request in requests:
                with pytest.raises(WireError, match="can't start '/no/such'"):
                    await client.answer(request)

        await fail(0)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(1, 8):
                await fail(number)
            assert tracemalloc.get_traced_memory()[0] - before < 2 * MIB
        finally:
            tracemalloc.stop()
            gc.enable()


async def test_a_taken_id_is_refused_even_while_it_is_being_started() -> None:
    async with session() as client:
        first = client.request("process/start", start_params("p", "/bin/true"))
        second = client.request("process/start", start_params("p", "/bin/true"))

        with pytest.raises(WireError, match="already exists"):
            await client.answer(second)
        await client.answer(first)


async def test_more_processes_than_allowed_are_refused_until_one_has_ended() -> None:
    async with session(max_processes_per_connection=2) as client:
        for name in ("a", "b"):
            await client.start(name, "/bin/cat", pipeStdin=True)
        error = await refused(client, "process/start", start_params("c", "/bin/true"))
        assert (error.code, "max_processes_per_connection" in error.message) == (-32600, True)
        await client.call("process/terminate", {"processId": "a"})
        await client.finish("a")
        await client.start("c", "/bin/true")


@pytest.mark.parametrize(
    "extra",
    [
        {"enforceManagedNetwork": True},
        {"managedNetwork": {"loopbackPorts": [], "allowLocalBinding": False}},
        {"shellSnapshot": {"scopeId": "s", "shell": {"name": "bash", "path": "/bin/bash"}}},
        {
            "sandbox": {
                "permissions": {
                    "type": "managed",
                    "file_system": {"type": "restricted", "entries": []},
                    "network": "restricted",
                },
                "windowsSandboxLevel": "disabled",
            }
        },
    ],
)
async def test_confinement_that_cannot_be_had_is_an_error_and_nothing_starts(
    extra: dict[str, Any], tmp_path: Path
) -> None:
    async with session() as client:
        params = start_params("p", "/usr/bin/touch", str(tmp_path / "made"), **extra)

        assert (await refused(client, "process/start", params)).code == -32602
        assert (await client.call("process/list")) == {"processes": []}
    assert not (tmp_path / "made").exists()


async def test_a_tool_call_and_its_thread_are_named_in_the_environment() -> None:
    thread = "0123abcd-0000-4000-8000-0123456789ab"
    async with session() as client:
        await client.start("p", "/usr/bin/env", env={}, metadata={"toolCallId": "call-1", "threadId": thread})

        output = (await client.finish("p")).streams["stdout"]
        assert output == f"CODEX_TOOL_CALL_ID=call-1\nCODEX_THREAD_ID={thread}\n".encode()


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"argv": ["/bin/echo", "fine", "b\0d"]}, "argument 2 ('b\\x00d') contains a NUL byte"),
        ({"argv": ["/bin/\0"]}, "the program contains a NUL byte"),
        ({"env": {"GOOD": "", "BAD": "secret\0"}}, "the environment variable 'BAD' contains a NUL byte"),
        ({"env": {"A=B": ""}}, "'A=B' can't be the name of an environment variable"),
        ({"env": {"": ""}}, "'' can't be the name of an environment variable"),
        ({"cwd": "/\0"}, "path '/\\x00' contains a NUL byte"),
        ({"cwd": "file:///%00"}, "path 'file:///%00' contains a NUL byte"),
        ({"cwd": "file://elsewhere/x"}, "params.cwd: 'file://elsewhere/x' does not name a directory of this"),
        (
            {"sandbox": {"profile": ":workspace", "cwd": "file:///C:/x", "windowsSandboxLevel": "disabled"}},
            "params.sandbox.cwd: 'file:///C:/x' does not name a file of this Linux host",
        ),
    ],
)
async def test_what_cannot_be_given_to_a_program_is_named(params: dict[str, Any], named: str) -> None:
    async with session() as client:
        with pytest.raises(WireError) as refusal:
            await client.start("p", "/bin/true", **params)

        assert named in refusal.value.message
        assert "secret" not in refusal.value.message


async def test_numbers_of_a_read_are_unsigned_with_64_bits() -> None:
    async with session() as client:
        await client.start("p", "/bin/true")
        await client.finish("p")
        largest = dict.fromkeys(("afterSeq", "maxBytes", "waitMs"), 2**64 - 1)

        assert (await client.call("process/read", {"processId": "p"} | largest))["chunks"] == []

        for name in largest:
            with pytest.raises(WireError, match=f"{name} is {2**64}") as refusal:
                await client.call("process/read", {"processId": "p", name: 2**64})
            assert refusal.value.code == -32602


# --- paths ------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{}", "file://{}"])
async def test_both_forms_of_a_path_work_and_come_back_as_they_were(form: str, tmp_path: Path) -> None:
    cwd = form.format(tmp_path)
    async with session() as client:
        await client.start("p", "/bin/pwd", cwd=cwd)
        assert (await client.finish("p")).streams["stdout"] == f"{tmp_path}\n".encode()

        listed = await client.call("process/list")
        assert listed["processes"][0]["cwd"] == cwd


# --- stdin ------------------------------------------------------------------


async def test_plain_writes_are_refused_with_an_error() -> None:
    async with session() as client:
        write = {"chunk": encode(b"x")}
        assert (await refused(client, "process/write", write | {"processId": "none"})).code == -32600
        await client.start("p", "/bin/sleep", "50")
        assert (await refused(client, "process/write", write | {"processId": "p"})).code == -32600


async def test_a_write_id_writes_once() -> None:
    async with session() as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        for _ in range(3):
            write = {"processId": "p", "chunk": encode(b"once"), "writeId": "1"}
            assert await client.call("process/write", write) == {"status": "accepted"}
        await client.call("process/closeStdin", {"processId": "p"})

        assert (await client.finish("p")).streams["stdout"] == b"once"


async def test_writes_arrive_in_order_however_many_are_in_flight() -> None:
    async with session() as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        blocks = [bytes([index]) * 40_000 for index in range(200)]
        requests = [
            client.request("process/write", {"processId": "p", "chunk": encode(block)}) for block in blocks
        ]
        requests.append(client.request("process/closeStdin", {"processId": "p"}))
        finished = await client.finish("p")
        for request in requests:
            await client.answer(request)

    assert finished.streams["stdout"] == b"".join(blocks)


async def test_a_child_that_never_reads_delays_its_writer_and_nobody_else() -> None:
    async with session(concurrent_requests=4) as client:
        await client.start("deaf", "/bin/sleep", "1000", pipeStdin=True)
        await client.start("cat", "/bin/cat", pipeStdin=True)
        chunk = encode(bytes(600_000))
        writes = [client.request("process/write", {"processId": "deaf", "chunk": chunk}) for _ in range(3)]
        await client.call("process/write", {"processId": "cat", "chunk": encode(b"alive")})
        assert (await client.event("cat", "process/output"))["chunk"] == encode(b"alive")
        assert await client.call("process/terminate", {"processId": "deaf"}) == {"running": True}
        outcomes = []
        for write in writes:
            try:
                outcomes.append(await client.answer(write))
            except WireError as error:
                outcomes.append(error.code)
        assert outcomes[0] == {"status": "accepted"}
        assert all(outcome in ({"status": "accepted"}, -32600) for outcome in outcomes)


async def test_closing_stdin_twice_is_fine_and_writing_after_is_told() -> None:
    async with session() as client:
        await client.start("p", *shell("cat; sleep 1000"), pipeStdin=True)
        for _ in range(2):
            assert await client.call("process/closeStdin", {"processId": "p"}) == {}
        write = {"processId": "p", "chunk": encode(b"x"), "writeId": "w"}
        assert await client.call("process/write", write) == {"status": "stdinClosed"}


async def test_closing_stdin_of_a_terminal_ends_its_input_even_in_the_middle_of_a_line() -> None:
    async with session() as client:
        await client.start("p", *shell("stty -echo; echo ready; cat"), tty=True)
        await client.event("p", "process/output")
        await client.call("process/write", {"processId": "p", "chunk": encode(b"half a line")})
        await client.call("process/closeStdin", {"processId": "p"})

        finished = await client.finish("p")
        assert finished.streams["pty"].endswith(b"half a line")
        assert finished.exit_code == 0


async def test_closing_stdin_of_a_terminal_heeds_the_character_that_was_chosen_for_it() -> None:
    async with session() as client:
        await client.start("p", *shell("stty -echo eof ^X; echo ready; cat"), tty=True)
        await client.event("p", "process/output")
        await client.call("process/closeStdin", {"processId": "p"})

        assert (await client.finish("p")).exit_code == 0


@pytest.mark.parametrize("is_at_its_prompt", [False, True])
async def test_closing_stdin_of_a_terminal_ends_a_shell_that_edits_its_lines(is_at_its_prompt: bool) -> None:
    env = {"PATH": "/usr/bin:/bin", "TERM": "dumb", "PS1": "prompt> ", "HISTFILE": ""}
    async with session() as client:
        await client.start("p", "/bin/bash", "--norc", "--noprofile", "-i", tty=True, env=env)
        if is_at_its_prompt:
            await client.event("p", "process/output")
        await client.call("process/write", {"processId": "p", "chunk": encode(b"(exit 3)\n")})
        await client.call("process/closeStdin", {"processId": "p"})

        assert (await client.finish("p")).exit_code == 3


async def test_a_program_that_leaves_canonical_mode_late_gets_the_end_of_input_once() -> None:
    script = (
        "import os, tty\n"
        "print(os.read(0, 100), flush=True)\n"
        "tty.setraw(0)\n"
        "print(os.read(0, 1), flush=True)\n"
        "os.set_blocking(0, False)\n"
        "try: os.read(0, 1)\n"
        "except BlockingIOError: print('no more', flush=True)\n"
    )
    async with session() as client:
        await client.start("p", sys.executable, "-c", script, tty=True)
        await client.call("process/closeStdin", {"processId": "p"})

        finished = await client.finish("p")
        assert finished.streams["pty"].split(b"\n")[:3] == [b"b''\r", b"b'\\x04'", b"no more"]


async def test_a_process_that_lets_go_of_its_terminal_keeps_its_own_exit_code() -> None:
    script = "read x; exec >/dev/null 2>&1 </dev/null; sleep 0.3; echo still here >/dev/tty; exit 7"
    async with session() as client:
        await client.start("p", *shell(script), tty=True)
        await client.call("process/write", {"processId": "p", "chunk": encode(b"go\n")})
        await client.call("process/closeStdin", {"processId": "p"})

        finished = await client.finish("p")
        assert finished.exit_code == 7
        assert finished.streams["pty"].endswith(b"still here\r\n")


async def test_input_that_nobody_reads_is_refused_before_it_fills_the_memory() -> None:
    async with session() as client:
        await client.start("deaf", "/bin/sleep", "1000", pipeStdin=True)
        chunk = encode(bytes(8 << 20))
        writes = [client.request("process/write", {"processId": "deaf", "chunk": chunk}) for _ in range(12)]

        with pytest.raises(WireError, match="does not read its stdin"):
            await client.answer(writes[-1])


@pytest.mark.parametrize("method", ["process/closeStdin", "process/snapshot", "process/wait", "process/read"])
async def test_unknown_processes_are_refused(method: str) -> None:
    async with session() as client:
        assert (await refused(client, method, {"processId": "zz"})).code == -32600


# --- terminals and signals --------------------------------------------------


async def test_resizing_reaches_the_program_in_the_terminal() -> None:
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done"
    async with session() as client:
        await client.start("p", *shell(script), tty=True)
        await client.event("p", "process/output")

        assert await client.call("process/resize", {"processId": "p", "rows": 7, "cols": 33}) == {}

        assert (await client.finish("p")).streams["pty"] == b"7 33\r\n"


async def test_resizing_a_pipe_is_refused() -> None:
    async with session() as client:
        await client.start("p", "/bin/sleep", "50")
        assert (
            await refused(client, "process/resize", {"processId": "p", "rows": 7, "cols": 33})
        ).code == -32600


@pytest.mark.parametrize(("name", "said"), [("SIGUSR1", b"1"), ("USR2", b"2"), ("interrupt", b"3")])
async def test_any_signal_name_reaches_the_group(name: str, said: bytes) -> None:
    traps = "trap 'echo 1; exit' USR1; trap 'echo 2; exit' USR2; trap 'echo 3; exit' INT; echo ready"
    script = f"{traps}; while :; do sleep 0.01; done"
    async with session() as client:
        await client.start("p", *shell(script))
        await client.event("p", "process/output")
        assert await client.call("process/signal", {"processId": "p", "signal": name}) == {}

        assert (await client.finish("p")).streams["stdout"] == said + b"\n"


async def test_a_signal_to_nobody_is_fine() -> None:
    async with session() as client:
        assert await client.call("process/signal", {"processId": "zz", "signal": "KILL"}) == {}
        assert await client.call("process/terminate", {"processId": "zz"}) == {"running": False}


async def test_a_signal_waits_for_the_start_that_it_refers_to() -> None:
    async with session() as client:
        start = client.request("process/start", start_params("p", "/bin/cat", pipeStdin=True))
        signal = client.request("process/signal", {"processId": "p", "signal": "TERM"})
        await client.answer(start)
        assert await client.answer(signal) == {}
        assert (await client.finish("p")).exit_code == 143

        start = client.request("process/start", start_params("q", "/no/such/program"))
        signal = client.request("process/signal", {"processId": "q", "signal": "TERM"})
        with pytest.raises(WireError, match="/no/such/program"):
            await client.answer(start)
        assert await client.answer(signal) == {}


# --- the end ----------------------------------------------------------------


async def test_a_graceful_end_lets_the_program_clean_up() -> None:
    script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    async with session() as client:
        await client.start("p", *shell(script))
        await client.event("p", "process/output")
        mode = {"graceful": {"timeoutMs": 20_000}}
        assert await client.call("process/terminate", {"processId": "p", "mode": mode}) == {"running": True}

        finished = await client.finish("p")
        assert (finished.streams["stdout"], finished.exit_code) == (b"bye\n", 3)


async def test_after_the_grace_the_whole_group_is_killed() -> None:
    # What a shell ignores, its children ignore too.
    script = "trap '' TERM; while :; do sleep 1; done & echo ready; while :; do sleep 1; done"
    async with session() as client:
        await client.start("p", *shell(script))
        await client.event("p", "process/output")
        mode = {"graceful": {"timeoutMs": 50}}
        await client.call("process/terminate", {"processId": "p", "mode": mode})

        assert (await client.finish("p")).exit_code == 137


async def test_a_forced_end_is_the_default_and_takes_the_group() -> None:
    async with session() as client:
        await client.start("p", *shell("sleep 1000 & sleep 1000"))
        assert await client.call("process/terminate", {"processId": "p", "mode": "force"}) == {
            "running": True
        }
        assert (await client.finish("p")).exit_code == 137
        assert await client.call("process/terminate", {"processId": "p"}) == {"running": False}


async def test_output_written_before_a_forced_end_is_not_lost() -> None:
    async with session() as client:
        await client.start("p", *shell("head -c 50000 /dev/zero; echo done; echo >&2; sleep 1000"))
        while (await client.event("p", "process/output"))["stream"] != "stderr":
            pass
        await client.call("process/terminate", {"processId": "p"})
        read = await client.call("process/read", {"processId": "p", "waitMs": 20_000, "afterSeq": 10**6})
        assert read["closed"]

        kept = await client.call("process/snapshot", {"processId": "p"})
        assert base64.b64decode(kept["stdout"]) == bytes(50_000) + b"done\n"


async def test_a_forced_end_does_not_wait_for_who_left_the_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {pid_file}; echo ready; exec sleep 1000' & wait"
    async with session() as client:
        await client.start("p", *shell(script))
        await client.event("p", "process/output")
        await client.call("process/terminate", {"processId": "p"})

        assert (await client.finish("p")).exit_code == 137
        os.kill(int(pid_file.read_text()), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


async def test_a_daemon_that_writes_without_end_cannot_hold_up_a_forced_end() -> None:
    async with session() as client:
        await client.start("p", *shell("setsid yes & echo ready >&2; wait"))
        while (await client.event("p", "process/output"))["stream"] != "stderr":
            pass
        await client.call("process/terminate", {"processId": "p"})

        assert (await client.event("p", "process/exited"))["exitCode"] == 137
        await client.event("p", "process/closed")


# --- retained output --------------------------------------------------------


async def test_dropped_output_is_said_in_read_and_snapshot() -> None:
    async with session(retained_output_bytes_per_process=100_000) as client:
        await client.start("p", *shell("head -c 500000 /dev/zero; echo end"))
        await client.finish("p")

        read = await client.call("process/read", {"processId": "p"})
        snapshot = await client.call("process/snapshot", {"processId": "p"})

    kept = sum(len(base64.b64decode(chunk["chunk"])) for chunk in read["chunks"])
    (gap,) = read["gaps"]
    assert kept <= 100_000
    assert kept + gap["bytes"] == 500_004
    numbers = {chunk["seq"] for chunk in read["chunks"]}
    assert not numbers & set(range(gap["fromSeq"], gap["toSeq"] + 1))
    assert snapshot["truncated"]
    assert len(base64.b64decode(snapshot["stdout"])) + snapshot["omittedBytes"]["stdout"] == 500_004
    assert base64.b64decode(snapshot["stdout"]).endswith(b"end\n")
    assert (snapshot["exitCode"], snapshot["running"]) == (0, False)


async def test_closed_processes_are_forgotten_when_they_hold_too_much() -> None:
    async with session(closed_output_bytes_per_session=150_000) as client:
        for name in ("a", "b"):
            await client.start(name, *shell("head -c 100000 /dev/zero"))
            await client.finish(name)

        assert (await refused(client, "process/read", {"processId": "a"})).code == -32600
        assert (await client.call("process/read", {"processId": "b"}))["closed"]


async def test_closed_processes_are_forgotten_in_time() -> None:
    async with session(closed_process_ttl_s=0) as client:
        await client.start("p", "/bin/true")
        await client.finish("p")

        await client.start("p", "/bin/true")


async def test_a_process_that_is_remembered_for_long_does_not_delay_the_forgetting_of_others() -> None:
    async with session(closed_process_ttl_s=0.02) as client:
        await client.start("kept", "/bin/true", keepAlive=True)
        await client.finish("kept")
        await client.start("p", "/bin/true")
        await client.finish("p")

        async with asyncio.timeout(20):
            while len(known := (await client.call("process/list"))["processes"]) > 1:
                pass
        assert [process["processId"] for process in known] == ["kept"]


# --- what a stock client sees -----------------------------------------------


async def test_a_stock_client_sees_exactly_the_reference_shapes() -> None:
    async with session(extensions=False) as client:
        assert await client.start("p", "/bin/echo", "x") == {"processId": "p", "sandboxType": "none"}
        await client.finish("p")
        read = await client.call("process/read", {"processId": "p"})
        info = await client.call("environment/info")
        refused = client.request("process/start", start_params("p", "/bin/true"))
        refusal = await client.take(lambda message: message.get("id") == refused)

    assert list(refusal["error"]) == ["code", "message"]
    assert list(read) == ["chunks", "nextSeq", "exited", "exitCode", "closed", "failure", "sandboxDenied"]
    assert list(read["chunks"][0]) == ["seq", "stream", "chunk"]
    assert "processResize" not in info["capabilities"]


async def test_a_client_with_extensions_is_told_the_name_of_an_error_and_what_it_is_about() -> None:
    async with session() as client:
        await client.start("p", "/bin/true")
        refused = client.request("process/start", start_params("p", "/bin/true"))
        refusal = await client.take(lambda message: message.get("id") == refused)

    assert refusal["error"]["data"] == {"name": "processExists", "processId": "p"}


async def test_a_client_with_extensions_is_told_the_features() -> None:
    async with served() as server:
        client = attach(server)
        result = await client.initialize(capabilities={"extensions": True})

    assert result["environmentInfo"]["capabilities"]["processResize"] is True
    assert result["environmentInfo"]["capabilities"]["preparedExec"] is False
