"""The stock Codex CLI runs commands on our server, in each of its modes."""

from __future__ import annotations

import asyncio

import pytest

from tests.interop.codex import Codex, Mode, shell_command
from tests.interop.model import Call
from tests.interop.tap import Tap

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_instructions_and_skills_of_the_workspace_reach_the_model(codex: Codex) -> None:
    assert "speak of marmalade" in codex.opening
    assert "jam-making" in codex.opening


async def test_what_a_command_prints_and_its_exit_code_come_back(codex: Codex, tap: Tap) -> None:
    reply = await codex.run("echo sum-$((6*7)); exit 3")

    assert (reply.output, reply.exit_code) == ("sum-42\n", 3)
    assert len(tap.starts("echo sum-$((6*7))")) == 1


async def test_both_streams_come_back(codex: Codex) -> None:
    reply = await codex.run("echo one; echo two >&2")

    assert sorted(reply.output.split()) == ["one", "two"]


async def test_a_shell_is_a_login_shell_unless_told_otherwise(codex: Codex) -> None:
    asked = {"cmd": "shopt -q login_shell", "shell": "bash"}
    (login,) = await codex.use(Call("exec_command", asked))

    assert login.exit_code == 0
    assert (await codex.run(asked["cmd"], shell=asked["shell"])).exit_code == 1


async def test_a_command_runs_in_the_directory_that_was_asked_for(codex: Codex) -> None:
    reply = await codex.run("pwd; cat inner.txt", workdir="sub")

    assert reply.output == f"{codex.ground.workspace}/sub\ninner\n"


async def test_a_directory_that_does_not_exist_is_an_error(codex: Codex) -> None:
    reply = await codex.run("pwd", workdir="none")

    assert "exec_command failed" in reply.text


async def test_variables_of_the_cli_reach_the_command(codex: Codex, mode: Mode) -> None:
    lines = (await codex.run("env")).output.splitlines()

    assert {"TERM=dumb", "CODEX_CI=1", "GIT_PAGER=cat"} <= set(lines)
    assert any(line.startswith("CODEX_THREAD_ID=") for line in lines)
    assert ("CODEX_SANDBOX_NETWORK_DISABLED=1" in lines) == (mode is not Mode.DANGER_FULL_ACCESS)


async def test_standard_input_is_at_its_end(codex: Codex) -> None:
    assert (await codex.run("cat; echo $?")).output == "0\n"


async def test_commands_run_at_once(codex: Codex) -> None:
    gates = [codex.ground.gate() for _ in range(2)]
    calls = [shell_command(f"cat {gate.path}; exit {number}") for number, gate in enumerate(gates)]
    using = asyncio.create_task(codex.use(*calls))
    # Both have come to their gate before either may pass.
    await asyncio.gather(*(gate.reached() for gate in gates))
    for gate in gates:
        gate.open("come in\n")

    replies = await using
    assert [(reply.output, reply.exit_code) for reply in replies] == [("come in\n", 0), ("come in\n", 1)]


async def test_nothing_of_a_large_output_is_lost(codex: Codex) -> None:
    last = 300_000
    reply = await codex.run(f"seq 1 {last}")

    assert reply.output.endswith(f"{last - 1}\n{last}\n")
    # The CLI shows the model a part, and counts four bytes of the whole as a token.
    assert reply.tokens == -(-sum(len(f"{number}\n") for number in range(1, last + 1)) // 4)


async def test_characters_are_whole_though_chunks_end_within_them(codex: Codex) -> None:
    reply = await codex.run("for i in $(seq 6000); do printf 'äöü€'; done; echo END")

    assert "äöü€äöü€" in reply.output
    assert reply.output.endswith("END\n")
    assert "\ufffd" not in reply.output


@pytest.mark.parametrize(("command", "exit_code"), [("/no/such/program", 127), ("kill -9 $$", 137)])
async def test_a_command_that_fails_to_run_or_is_killed_tells_its_exit_code(
    codex: Codex, command: str, exit_code: int
) -> None:
    assert (await codex.run(command)).exit_code == exit_code


async def test_an_image_is_shown_to_the_model(codex: Codex) -> None:
    (reply,) = await codex.use(Call("view_image", {"path": f"{codex.ground.workspace}/pixel.png"}))

    assert reply.text.startswith("data:image/png;base64,")


async def test_all_of_it_went_over_one_connection(codex: Codex, tap: Tap) -> None:
    await codex.run("true")

    assert tap.connections == 1
