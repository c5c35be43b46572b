"""Programs of a model that stay between its calls: a shell, a Python, and what their sandbox denied them."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import shlex
import time
from collections.abc import AsyncIterator

import pytest

import paddock
from paddock.adapters import conversation, kernel_program
from paddock.adapters.bash_session import BashSession
from paddock.adapters.conversation import Conversation, ConversationOver
from paddock.adapters.outcome import explained
from paddock.adapters.pattern_search import Sought, find_apart
from paddock.adapters.relayed_shell import Relay
from paddock.adapters.shell import NEW_SHELL, Shell
from tests.wire import served


@pytest.fixture
async def workspace() -> AsyncIterator[paddock.Workspace]:
    async with served() as server, paddock.Workspace(server.url) as workspace:
        yield workspace


@pytest.fixture
async def shell(workspace: paddock.Workspace) -> AsyncIterator[Shell]:
    shell = Shell(workspace)
    yield shell
    await shell.close()


async def test_a_shell_keeps_its_directory_and_variables_and_tells_what_was_denied(shell: Shell) -> None:
    assert (await shell.run("mkdir a; cd a; word=kept")).text == ""
    assert (await shell.run("basename $PWD; echo $word; printf end")).output == "a\nkept\nend"
    refused = await shell.run("touch /etc/paddock-no")
    assert refused.exit_code == 1
    assert "Note: The sandbox denied: write /etc/paddock-no.\n" in refused.text
    # Neither an ordinary failure nor what failed before is a denial.
    assert (await shell.run("cat missing")).notes == ()
    assert (await shell.run("false")).notes == ()


async def test_a_command_that_is_none_fails_and_one_that_reads_gets_nothing(shell: Shell) -> None:
    broken = await shell.run("(echo")
    assert broken.exit_code != 0
    assert "syntax error" in broken.output
    assert (await shell.run("cat; echo done")).output == "done\n"
    assert (await shell.run('printf \'%s\' "it\'s \\"quoted\\""')).output == 'it\'s "quoted"'


async def test_a_shell_that_ends_or_takes_too_long_is_replaced(shell: Shell) -> None:
    await shell.run("word=kept")
    ended = await shell.run("echo bye; exit 3")
    assert (ended.output, ended.exit_code) == ("bye\n", 3)
    assert ended.notes[-1] == NEW_SHELL
    assert (await shell.run("echo -$word-")).output == "--\n"

    slow = await shell.run("echo before; sleep 600", timeout_s=0.3)
    assert (slow.output, slow.exit_code) == ("before\n", None)
    assert slow.notes[0].startswith("The command did not end within 0.3 s")
    assert (await shell.run("echo after")).output == "after\n"


async def test_a_cancelled_command_ends_its_shell(shell: Shell, workspace: paddock.Workspace) -> None:
    running = asyncio.create_task(shell.run("touch begun; sleep 600; echo late"))
    while not await (await workspace.path("begun")).exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await shell.run("echo next")).output == "next\n"


async def test_output_that_nobody_takes_is_bounded(
    workspace: paddock.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "LIMIT_BYTES", 1000)
    talk = Conversation(await workspace.start(["sh", "-c", "seq 1000; echo END; read line"], stdin=True))
    found = await talk.answer(re.compile(rb"END"), 30)
    said = talk.take(found)
    assert said.startswith(b"1\n2\n")
    assert said.endswith(b"\n1000\n")
    assert re.search(rb"\[\xe2\x80\xa6 \d+ bytes are left out \xe2\x80\xa6\]", said)
    assert len(said) < 1100
    await talk.tell("over\n")
    with pytest.raises(ConversationOver):
        await talk.answer(re.compile(rb"never"), 30)
    assert talk.is_over
    await talk.end()


async def test_a_python_stays_and_answers_behind_what_the_code_wrote(workspace: paddock.Workspace) -> None:
    command = ["python3", "-c", inspect.getsource(kernel_program)]
    talk = Conversation(await workspace.start(command, stdin=True))

    async def asked(code: str) -> tuple[str, dict[str, object]]:
        await talk.tell(json.dumps({"mark": "MARK", "code": code}) + "\n")
        found = await talk.answer(re.compile(rb"MARK (.*)\n"), 30)
        return talk.take(found).decode(), json.loads(found[1])

    assert await asked("import os\nx = 2\nprint('said')") == ("said\n", {"value": None})
    assert await asked("os.system('echo child >&2')\nx + 1") == ("child\n", {"value": "3"})
    assert await asked(
        "class FinalAnswerException(BaseException):\n value = 'v'\nraise FinalAnswerException"
    ) == (
        "",
        {"final": "v"},
    )
    for code in ("open('/etc/paddock-no', 'w')", "exit(1)", "input()", "x ="):
        said, answer = await asked(code)
        assert (said, list(answer)) == ("", ["error"])
    await talk.end()

    code = "open('/etc/paddock-no', 'w')"
    error = "OSError: [Errno 30] Read-only file system: '/etc/paddock-no'"
    assert (await explained(workspace, code, error, 1))[0] == "The sandbox denied: write /etc/paddock-no."
    assert await explained(workspace, "true", error, 0) == ()


async def test_a_workspace_may_inherit_no_variable() -> None:
    env = {"PATH": "/usr/bin:/bin", "WORD": "x"}
    async with served() as server, paddock.Workspace(server.url, env=env, inherits_env=False) as workspace:
        names = (await workspace.run(["env"])).stdout.decode()
    assert {line.partition("=")[0] for line in names.splitlines()} - {"PWD"} == set(env)


async def test_a_bash_on_a_terminal_says_how_a_line_ended_and_where(workspace: paddock.Workspace) -> None:
    await workspace.write_bytes("startup", b"echo sourced; PS1=changed\n")
    session = BashSession(workspace)
    assert await session.start(["startup"], 30) == "sourced\n"
    for line, output, status in (
        ("printf '\\n x'", "\n x", 0),
        ("cd /tmp\nfalse", "", 1),
        ("echo 'a\tb!c' ünï", "a\tb!c ünï\n", 0),
        ("cat <<EOF\nit's\nEOF", "it's\n", 0),
        ("# nothing", "", 0),
    ):
        seen = await session.run(line, 30)
        assert (seen.output, seen.exit_code, seen.seen) == (output, status, "")
    refused = await session.run("touch /etc/paddock-no", 30)
    assert refused.notes[0] == "The sandbox denied: write /etc/paddock-no."
    assert (await session.run("echo one two; cat", 30, ["o.e"])).seen == "o.e"
    assert (await session.interrupt(5, 3)).exit_code == 130
    with pytest.raises(ConversationOver):
        await session.run("exit", 30)
    await session.close()


async def test_no_expression_that_a_line_waits_for_holds_up_anybody_else(
    workspace: paddock.Workspace,
) -> None:
    session = BashSession(workspace)
    await session.start([], 30)
    # Outside it takes an age: each byte doubles the time.
    running = asyncio.create_task(session.run(f"echo {'a' * 60}b", 30, ["(a|a)+$"]))
    turns = 0
    while not running.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(paddock.PaddockError, match="takes too long"):
        await running
    assert turns > 50
    # The line itself has ended meanwhile.
    assert (await session.run("echo after", 30)).output == f"{'a' * 60}b\n"
    assert (await session.type("", 30)).output == "after\n"
    await session.close()


async def test_slow_searches_take_no_thread_from_anybody_else() -> None:
    slow = Sought((b"(a|a)+$",), b"a" * 60 + b"b")
    running = [asyncio.create_task(find_apart(slow)) for _ in range(40)]
    await asyncio.sleep(0)
    await asyncio.to_thread(int)
    assert not any(each.done() for each in running)
    for each in running:
        each.cancel()
    await asyncio.wait(running)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("|".join(map(str, range(400_000))), "takes too long"),
        ("(" * 5000 + ")" * 5000, "means nothing: maximum recursion depth"),
        ("(a", "means nothing: missing \\)"),
    ],
    ids=["long", "deep", "open"],
)
async def test_expression_that_python_can_not_read_holds_up_nobody_and_is_told(
    workspace: paddock.Workspace, expression: str, problem: str
) -> None:
    session = BashSession(workspace)
    await session.start([], 30)
    used_s = time.thread_time()
    with pytest.raises(paddock.PaddockError, match=problem):
        await session.run("echo line", 30, [expression])
    # To read the long one takes ten seconds of a processor, and this thread serves everybody.
    assert time.thread_time() - used_s < 2
    assert (await session.run("true", 30)).output == "line\n"
    await session.close()


async def test_word_of_the_prompt_in_the_output_ends_no_line_and_takes_no_time(
    workspace: paddock.Workspace,
) -> None:
    session = BashSession(workspace)
    await session.start([], 30)
    reading = "word=${PROMPT_COMMAND#*\\'}; word=${word:0:32}"
    writing = 'yes "${word}1:x" | head -c 900000 | tr -d "\\n"; echo; echo ${#word}'
    async with asyncio.timeout(30):
        seen = await session.run(f"{reading}; {writing}", 30)
    assert seen.output.endswith("\n32\n")
    assert seen.exit_code == 0
    await session.close()


async def test_a_program_on_a_terminal_is_talked_to_and_killed_if_it_does_not_listen(
    workspace: paddock.Workspace,
) -> None:
    session = BashSession(workspace)
    await session.start([], 30)
    asks = shlex.quote("stty echo; printf 'name? '; read name; echo hello $name")
    assert (await session.type(f"sh -c {asks}", 30, ["name[?] "])).seen == "name[?] "
    assert "hello you\n" in (await session.type("you", 30)).output
    await session.restore()
    with pytest.raises(TimeoutError):
        await session.run("sh -c 'trap \"\" INT; echo deaf; while :; do sleep 600; done'", 0.3)
    assert (await session.interrupt(0.3, 1)).exit_code == 0
    assert "after\n" in (await session.run("echo after", 30)).output
    await session.close()


async def test_a_relay_tells_of_refusals_in_front_of_the_markers_of_a_tool(
    workspace: paddock.Workspace, capfd: pytest.CaptureFixture[str]
) -> None:
    there = await workspace.open()
    relay = Relay(await workspace.start(["bash"], stdin=True), workspace)
    input = asyncio.StreamReader()
    own = "printf 'own %s\\n' $?"
    commands = ["printf unended", "touch /etc/paddock-no", "pwd; false", f"cat <<'E'\n{own}\nE", "exit 3"]
    marks = [f"mark-{number:032x}" for number in range(len(commands))]
    for mark, command in zip(marks, commands, strict=True):
        input.feed_data(f"{command}\nprintf '{mark} %s\\n' $?\n".encode())
    input.feed_eof()
    sending = asyncio.create_task(relay.send(input))
    assert await relay.receive() == 3
    await asyncio.gather(sending, return_exceptions=True)
    out, err = capfd.readouterr()
    assert out.splitlines() == [
        "unended",
        f"{marks[0]} 0",
        "Note: The sandbox denied: write /etc/paddock-no.",
        f"Note: Work in {there.directory}, or ask the user to grant more; trying again changes nothing.",
        f"{marks[1]} 1",
        there.directory,
        f"{marks[2]} 1",
        own,
        f"{marks[3]} 0",
    ]
    assert err == "touch: cannot touch '/etc/paddock-no': Read-only file system\n"
