"""`paddock logs` beside real servers."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

import paddock
from tests.operators import PADDOCK, PATIENCE_S, Operator

SCRIPT = "echo one; echo two >&2; echo three; printf partial"


def run_to_end(operator: Operator, script: str, *flags: str) -> str:
    process_id = operator.detach(*flags, "--", "sh", "-c", script)
    operator.await_process(process_id, lambda process: not process["running"])
    return process_id


def test_output_comes_out_on_its_stream_even_after_the_end(operator: Operator) -> None:
    with operator.serving():
        process_id = run_to_end(operator, SCRIPT)
        done = operator.paddock("logs", process_id)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"one\nthree\npartial", b"two\n")
        assert operator.output("logs", "--stdout", process_id) == "one\nthree\npartial"
        only = operator.paddock("logs", "--stderr", process_id)
        assert (only.stdout, only.stderr) == (b"", b"two\n")


def test_a_terminals_output_is_stdout(operator: Operator) -> None:
    with operator.serving():
        process_id = run_to_end(operator, "echo out; echo err >&2", "--tty")
        assert operator.output("logs", process_id) == "out\r\nerr\r\n"
        assert operator.output("logs", "--stdout", process_id) == "out\r\nerr\r\n"
        assert operator.output("logs", "--stderr", process_id) == ""


def test_the_last_lines_can_be_had(operator: Operator) -> None:
    with operator.serving():
        process_id = run_to_end(operator, SCRIPT)
        for lines, text in (("0", ""), ("2", "three\npartial"), ("9", "one\nthree\npartial")):
            assert operator.output("logs", "--stdout", "--tail", lines, process_id) == text


def test_what_the_server_dropped_is_said_in_its_place(operator: Operator, tmp_path: Path) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text("retained_output_bytes_per_process = 65536\n")
    with operator.serving("--config", str(config)):
        process_id = run_to_end(operator, "seq 100000")
        done = subprocess.run(
            [*PADDOCK, "logs", process_id],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            check=True,
            env=os.environ | operator.env,
        )
    whole = b"".join(b"%d\n" % number for number in range(1, 100_001))
    head, notice, tail = re.split(rb"(paddock logs: \d+ bytes of output were dropped here\n)", done.stdout)
    dropped = int(notice.split()[2])
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + dropped + len(tail) == len(whole)


async def test_following_shows_what_comes_until_the_end(operator: Operator) -> None:
    with operator.serving() as server:
        async with paddock.connect(server.url) as box:
            process = await box.start(
                ["sh", "-c", 'echo start; while read x; do echo "got $x"; done; exit 3'],
                stdin=True,
                process_id="p",
            )
            await anext(aiter(process))
            child = await asyncio.create_subprocess_exec(
                *(*PADDOCK, "logs", "--follow", "p"), stdout=subprocess.PIPE, env=os.environ | operator.env
            )
            assert child.stdout is not None
            assert await child.stdout.readline() == b"start\n"
            await process.write(b"one\n")
            assert await child.stdout.readline() == b"got one\n"
            await process.write(b"two\n")
            assert await child.stdout.readline() == b"got two\n"
            await process.close_stdin()
            assert await child.stdout.read() == b""
            assert await child.wait() == 0


async def test_following_from_now_on_leaves_out_what_was(operator: Operator) -> None:
    with operator.serving() as server:
        async with paddock.connect(server.url) as box:
            script = "echo old; while read x; do echo new; done"
            process = await box.start(["sh", "-c", script], stdin=True, process_id="p")
            await anext(aiter(process))
            child = await asyncio.create_subprocess_exec(
                *(*PADDOCK, "logs", "-f", "-n0", "p"), stdout=subprocess.PIPE, env=os.environ | operator.env
            )
            assert child.stdout is not None
            line = asyncio.ensure_future(child.stdout.readline())
            while not line.done():
                await process.write(b"\n")
            assert await line == b"new\n"
            await process.terminate()
            assert b"old" not in await child.stdout.read()
            assert await child.wait() == 0


def test_a_reader_that_has_enough_ends_it_quietly(operator: Operator) -> None:
    with operator.serving():
        process_id = operator.detach("--", "sh", "-c", "while :; do echo line; done")
        done = subprocess.run(
            ["sh", "-c", '"$@" | head -n 3', "sh", *PADDOCK, "logs", "--follow", "--stdout", process_id],
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            env=os.environ | operator.env,
        )
        assert done.stdout == b"line\n" * 3
        assert all(b"were dropped here" in line for line in done.stderr.splitlines())


def test_an_unknown_process_is_one_sentence(operator: Operator) -> None:
    done = operator.paddock("logs", "nothing")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == (b"paddock logs: you have no server running; start one with `paddock serve`\n")
    with operator.serving():
        done = operator.paddock("logs", "nothing")
        assert done.stderr == (
            b"paddock logs: no process 'nothing'; `paddock ps --all` lists those that are known\n"
        )
