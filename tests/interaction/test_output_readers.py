"""Output as text, lines and up to a pattern, and the end of a command whose child lives on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import paddock
import paddock.sync
from paddock.client.output_reader import DRAIN_LIMIT_S
from tests.wire import served, shell


@pytest.fixture
async def box() -> AsyncIterator[paddock.Box]:
    async with served() as server, paddock.connect(server.url) as box:
        yield box


async def test_text_has_whole_characters(box: paddock.Box) -> None:
    # The two bytes of the letter come in two writes, and in two pieces.
    process = await box.start(shell("printf '\\303'; sleep 0.1; printf '\\244\\n'"))
    assert [text async for text in process.text()] == ["ä\n"]


async def test_whoever_leaves_a_loop_over_lines_loses_nothing(box: paddock.Box) -> None:
    process = await box.start(shell("printf 'one\\ntwo\\nthree\\nfour\\nfi'; printf 've' >&2"))
    async for line in process.lines():
        assert line == "one"
        break
    async for line in process.lines():
        assert line == "two"
        break
    assert await process.read_until("three\n") == "three\n"
    stdout, stderr = await process.communicate()
    assert (stdout, stderr) == (b"four\nfi", b"ve")


async def test_a_terminals_lines_have_no_carriage_return(box: paddock.Box) -> None:
    process = await box.start(shell("echo one; echo two >&2"), tty=True)
    assert [line async for line in process.lines()] == ["one", "two"]


async def test_a_dialogue_by_patterns(box: paddock.Box) -> None:
    process = await box.start(["python3", "-iq"], tty=True)
    await process.read_until(">>> ")
    await process.write(b"print('a' + 'b')\n")
    assert "ab" in await process.read_until(r"\nab\r?\n")
    await process.read_until(">>> ")
    await process.write("print('é' == '\\u00e9')\n")
    assert "True" in await process.read_until(r"\nTrue\r?\n")
    await process.write(b"exit()\n")
    assert await process.wait() == 0


async def test_output_without_a_match_can_still_be_read(box: paddock.Box) -> None:
    process = await box.start(shell("echo one; echo two"))
    with pytest.raises(paddock.PatternNotFound) as caught:
        await process.read_until("three")
    assert caught.value.text == "one\ntwo\n"
    assert await process.communicate() == (b"one\ntwo\n", b"")


async def test_a_pattern_that_does_not_come_in_time_leaves_the_output_unread(box: paddock.Box) -> None:
    process = await box.start(shell("echo one; read line"), stdin=True)
    await process.read_until("one")
    with pytest.raises(TimeoutError) as caught:
        await process.read_until("two", timeout_s=0.05)
    assert isinstance(caught.value, paddock.WaitTimeout)
    assert (
        str(caught.value) == f"process {process.process_id!r} did not write what matches 'two' within 0.05 s"
    )
    await process.write(b"\n")
    assert await process.communicate() == (b"\n", b"")


async def test_waiting_too_long_is_an_error_of_paddocks_and_a_builtin_one(box: paddock.Box) -> None:
    process = await box.start(shell("read line"), stdin=True)
    with pytest.raises(paddock.WaitTimeout) as caught:
        await process.wait(0.01)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(TimeoutError):
        await box.run(shell("sleep 60"), timeout_s=0.01)


async def test_run_gives_text_where_text_is_wanted(box: paddock.Box) -> None:
    done = await box.run(["cat"], input="größer\n", text=True)
    assert done.stdout == "größer\n"
    assert (await box.run(shell("printf '\\377'"), text=True)).stdout == "\ufffd"


async def test_input_of_the_wrong_kind_says_what_to_do(box: paddock.Box) -> None:
    with pytest.raises(TypeError, match=r"give text=True as well, or input\.encode"):
        await box.run(["cat"], input="text")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="give a str"):
        await box.run(["cat"], input=b"bytes", text=True)  # type: ignore[call-overload]


async def test_a_child_that_holds_the_output_does_not_hold_up_run(box: paddock.Box, tmp_path: Path) -> None:
    release = tmp_path / "release"
    os.mkfifo(release)
    done = await box.run(shell(f"cat {release} & echo started"), timeout_s=30)
    assert done.stdout == b"started\n"
    assert done.returncode == 0
    assert not done.is_output_complete


@pytest.mark.unmeasured
async def test_a_child_that_writes_without_end_does_not_hold_up_run(box: paddock.Box) -> None:
    async with asyncio.timeout(DRAIN_LIMIT_S + 30):
        done = await box.run(shell("yes & echo started"))
    assert b"started\n" in done.stdout
    assert not done.is_output_complete


async def test_everything_that_a_process_wrote_before_its_exit_is_there(box: paddock.Box) -> None:
    size = 8 * 1024 * 1024
    done = await box.run(["head", "-c", str(size), "/dev/zero"])
    assert len(done.stdout) == size
    assert done.is_output_complete


def test_blocking_readers_give_the_same() -> None:
    with paddock.sync.connect() as box:
        assert box.run(["cat"], input="a", text=True).stdout == "a"
        process = box.start(shell("printf 'one\\ntwo\\nthree'"))
        assert next(process.lines()) == "one"
        assert process.read_until("w") == "tw"
        assert "".join(process.text()) == "o\nthree"
