"""The stock Codex CLI follows, talks to and interrupts commands that go on, in each of its modes."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.interop.codex import Codex, Mode, codex_cli, new_ground
from tests.interop.tap import Tap

pytestmark = pytest.mark.asyncio(loop_scope="module")

READER = """\
stty -echo; test -t 0 && test -t 1 && stty size
while read -r line; do echo "got $line"; [ "$line" = quit ] && exit 5; done"""

TRAPPER = "trap 'echo trapped; exit 9' INT; echo ready; while :; do sleep 0.1; done"


async def test_a_terminal_is_typed_into_and_its_exit_code_seen(codex: Codex) -> None:
    session = await codex.begin(READER, tty=True)
    await session.until("24 80")
    await session.type("alpha\n")
    await session.until("got alpha")
    await session.type("quit\n")

    assert await session.end() == 5
    assert session.output.replace("\r", "") == "24 80\ngot alpha\ngot quit\n"
    assert "write_stdin failed" in (await codex.type(session.number, "more\n")).text


async def test_an_interrupt_typed_into_a_terminal_is_the_command_s_to_handle(codex: Codex) -> None:
    session = await codex.begin(TRAPPER, tty=True)
    await session.until("ready")
    await session.type("\x03")

    assert await session.end() == 9
    assert "trapped" in session.output


async def test_an_interrupt_without_a_terminal_is_a_signal(codex: Codex, tap: Tap) -> None:
    session = await codex.begin(TRAPPER)
    await session.until("ready")
    before = len(tap.exchanges("process/signal"))
    refused = await codex.type(session.number, "hello\n")
    await session.type("\x03")

    assert "stdin is closed" in refused.text
    assert await session.end() == 9
    assert session.output == "ready\ntrapped\n"
    assert len(tap.exchanges("process/signal")) == before + 1


async def test_a_command_in_the_background_is_polled_to_its_end(codex: Codex) -> None:
    gate = codex.ground.gate()
    session = await codex.begin(f"echo begin; cat {gate.path}; exit 4")
    await gate.reached()
    gate.open("finish\n")

    assert await session.end() == 4
    assert session.output == "begin\nfinish\n"


async def test_commands_that_are_left_running_end_with_the_cli(server_url: str) -> None:
    with new_ground() as ground, ExitStack() as stack:
        async with codex_cli(ground, Mode.WORKSPACE_WRITE, url=server_url) as codex:
            gates = [ground.gate() for _ in range(2)]
            for gate, tty in zip(gates, (False, True), strict=True):
                await codex.begin(f"exec 3<{gate.path}; sleep 1000", tty=tty)
                await gate.reached()
                stack.callback(gate.close)
            assert (await codex.finish())[0] == 0
        for gate in gates:
            await gate.deserted()
