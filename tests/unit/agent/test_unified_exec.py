"""`exec_command` and `write_stdin` on a fake executor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

import paddock
from paddock.agent import unified_exec
from paddock.agent.approval_asker import ApprovalAsker
from paddock.agent.approval_policy import ApprovalPolicy
from paddock.agent.approver import deny_all
from paddock.agent.event import EventHub, ExecCommandBegin, ExecCommandEnd, TerminalInteraction
from paddock.agent.exec_arguments import ExecArguments, StdinArguments
from paddock.agent.executor import Command, RunningCommand
from paddock.agent.fake_executor import FakeCommand, FakeExecutor
from paddock.agent.orchestrator import Orchestrator
from paddock.agent.permission import Reach, confinement_of
from paddock.agent.process_table import PROCESS_LIMIT
from paddock.agent.program_trust import ProgramTrust
from paddock.agent.reply import ExecReply
from paddock.agent.unified_exec import EARLY_EXIT_S, ENVIRONMENT, UnifiedExec
from paddock.client.event_sequence import Gap
from paddock.client.inbox import Output
from paddock.errors import ConnectError, InvalidToolCall, ProcessLost
from paddock.model.stream import Stream
from tests.unit.agent.scene import called, saying, write_denied


class Unit(UnifiedExec):
    """With its events at hand."""

    events: EventHub


def unified(executor: FakeExecutor, limit_tokens: int = 10_000) -> Unit:
    events = EventHub()
    orchestrator = Orchestrator(
        executor,
        confinement_of(":workspace"),
        ("/work",),
        policy=ApprovalPolicy.NEVER,
        asker=ApprovalAsker(deny_all, events, executor.identity),
        trust=ProgramTrust(executor, Reach(None)),
        reach=Reach(None),
    )
    numbers = count(1000)
    unit = Unit(
        executor,
        orchestrator,
        events,
        cwd="/work",
        limit_tokens=limit_tokens,
        choose_number=lambda: next(numbers),
    )
    unit.events = events
    return unit


async def test_command_that_ends_has_an_exit_code_and_no_session() -> None:
    executor = FakeExecutor(saying(3, output=b"hello\n"))
    async with paddock.Agent(executor) as tools:
        reply = await called(tools, "exec_command", cmd="false", workdir="sub")
        assert tools.sessions == []
    assert (reply.exit_code, reply.session_id, reply.output) == (3, None, "hello\n")
    command = executor.started[0].command
    assert command.argv == ("/bin/sh", "-c", "false")
    assert command.cwd == "/work/sub"
    assert command.env == ENVIRONMENT
    assert command.sandbox is not None
    assert command.sandbox.profile == ":workspace"
    assert (command.is_terminal, command.has_stdin) == (False, False)


async def test_login_shell_is_one_only_in_the_sandbox() -> None:
    executor = FakeExecutor(saying(write_denied(is_certain=False), 0))
    async with paddock.Agent(
        executor, approval_policy="on-failure", approver=lambda request: _yes(), allow_login_shell=True
    ) as tools:
        await called(tools, "exec_command", cmd="make")
    assert [started.command.argv[1] for started in executor.started] == ["-lc", "-c"]
    assert executor.started[1].command.sandbox is None


async def _yes() -> str:
    return "approved"


async def test_poll_returns_only_what_is_new() -> None:
    executor = FakeExecutor(lambda command: command.say(b"one\n"))
    unit = unified(executor)
    first = await unit.exec_command("call", ExecArguments("x", yield_time_ms=1))
    assert (first.output, first.session_id, first.exit_code) == ("one\n", 1000, None)
    executor.started[0].say(b"two\n")
    executor.started[0].end(0)
    second = await unit.write_stdin(StdinArguments(1000))
    assert (second.output, second.session_id, second.exit_code) == ("two\n", None, 0)
    with pytest.raises(InvalidToolCall, match="ended with exit code 0"):
        await unit.write_stdin(StdinArguments(1000))
    with pytest.raises(InvalidToolCall, match="there is no session 7"):
        await unit.write_stdin(StdinArguments(7))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("exec_command", {"cmd": "x", "workdir": "a\0b"}),
        (
            "exec_command",
            {
                "cmd": "x",
                "sandbox_permissions": "with_additional_permissions",
                "additional_permissions": {"file_system": {"read": ["/a\0b"]}},
            },
        ),
        ("read_file", {"path": "a\0b"}),
        ("edit_file", {"path": "a\0b", "old": "x", "new": "y"}),
        ("search_files", {"path": "a\0b", "pattern": "x"}),
        ("list_files", {"path": "a\0b"}),
        ("list_files", {"path": "README"}),
        ("write_stdin", {"session_id": 1e300}),
        ("write_stdin", {"session_id": 1000.5}),
    ],
)
async def test_what_a_model_does_wrong_is_a_reply(name: str, arguments: dict[str, object]) -> None:
    executor = FakeExecutor()
    async with paddock.Agent(executor) as tools:
        reply = await tools.call(name, arguments)
    assert reply.is_error
    assert len(reply.text) < 200
    assert executor.started == []


async def test_terminal_gets_what_is_typed_and_a_pipe_nothing_but_an_interrupt() -> None:
    executor = FakeExecutor()
    unit = unified(executor)
    await unit.exec_command("a", ExecArguments("sh", tty=True, yield_time_ms=1))
    await unit.exec_command("b", ExecArguments("sh", yield_time_ms=1))
    await unit.write_stdin(StdinArguments(1000, chars="ls\n"))
    assert executor.started[0].written == b"ls\n"
    with pytest.raises(InvalidToolCall, match="no open stdin"):
        await unit.write_stdin(StdinArguments(1001, chars="ls\n"))
    reply = await unit.write_stdin(StdinArguments(1001, chars="\x03"))
    assert (executor.started[1].interrupts, reply.exit_code) == (1, 130)
    await unit.aclose()
    assert executor.started[0].is_killed


async def test_stdin_is_written_and_closed() -> None:
    executor = FakeExecutor()
    unit = unified(executor)
    reply = await unit.exec_command("call", ExecArguments("cat", stdin="text", yield_time_ms=1))
    [fake] = executor.started
    assert (bytes(fake.written), fake.is_stdin_closed, fake.command.has_stdin) == (b"text", True, True)
    assert reply.session_id == 1000
    await unit.aclose()


@pytest.mark.parametrize("wait_for", [{"pattern": r"listening on \d+"}, {"idle_ms": 50}])
async def test_wait_ends_with_what_it_is_for(wait_for: dict[str, object]) -> None:
    executor = FakeExecutor(lambda command: command.say(b"listening on 80\n"))
    async with paddock.Agent(executor) as tools:
        # The test is stopped long before the yield time would be over.
        reply = await called(tools, "exec_command", cmd="x", yield_time_ms=30_000, wait_for=wait_for)
        assert reply.output == "listening on 80\n"
        assert reply.session_id is not None
        executor.started[0].say(b"a\nb\nlistening on 90")
        again = await called(
            tools, "write_stdin", session_id=reply.session_id, yield_time_ms=300_000, wait_for=wait_for
        )
        assert again.output == "a\nb\nlistening on 90"


async def test_pattern_that_is_none_is_refused_before_anything_runs() -> None:
    executor = FakeExecutor()
    async with paddock.Agent(executor) as tools:
        reply = await tools.call("exec_command", {"cmd": "x", "wait_for": {"pattern": "("}})
    assert reply.is_error
    assert "wait_for.pattern" in reply.text
    assert executor.started == []


async def test_cancelled_call_leaves_its_command_at_any_moment() -> None:
    started = asyncio.Event()
    executor = FakeExecutor(lambda _: started.set())
    unit = unified(executor)
    for wait_s in (0.0, 2 * EARLY_EXIT_S):
        started.clear()
        call = asyncio.create_task(unit.exec_command("call", ExecArguments("x")))
        await started.wait()
        await asyncio.wait((call,), timeout=wait_s)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert [session.session_id for session in unit.sessions] == [1000, 1001]
    assert not any(fake.is_killed for fake in executor.started)
    executor.started[0].say(b"later\n")
    executor.started[0].end(0)
    assert (await unit.write_stdin(StdinArguments(1000))).output == "later\n"
    await unit.aclose()


class SlowExecutor(FakeExecutor):
    """Answers a start when it is told to, though its command runs."""

    def __init__(self) -> None:
        super().__init__()
        self.is_running, self.may_answer = asyncio.Event(), asyncio.Event()

    async def start(self, command: Command) -> RunningCommand:
        running = await super().start(command)
        self.is_running.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            running.kill()
            raise
        return running


async def test_call_that_is_cancelled_before_its_start_is_answered_leaves_its_command() -> None:
    executor = SlowExecutor()
    unit = unified(executor)
    call = asyncio.create_task(unit.exec_command("call", ExecArguments("x")))
    await executor.is_running.wait()
    call.cancel()
    executor.may_answer.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    executor.started[0].say(b"later\n")
    executor.started[0].end(0)
    assert (await unit.write_stdin(StdinArguments(1000))).output == "later\n"
    await unit.aclose()


async def test_start_that_is_not_answered_in_time_is_given_up_with_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unified_exec, "START_S", 0.01)
    executor = SlowExecutor()
    unit = unified(executor)
    call = asyncio.create_task(unit.exec_command("call", ExecArguments("x")))
    await executor.is_running.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(0)
    assert executor.started[0].is_killed
    assert unit.sessions == []
    await unit.aclose()


async def test_sixty_fifth_command_takes_the_place_of_the_least_used() -> None:
    executor = FakeExecutor()
    unit = unified(executor)

    async def start(number: int) -> None:
        await unit.exec_command(str(number), ExecArguments(str(number), yield_time_ms=1))

    await asyncio.gather(*(start(number) for number in range(PROCESS_LIMIT)))
    assert len(unit.sessions) == PROCESS_LIMIT
    oldest, second = unit.sessions[:2]
    # One that has ended goes before one that runs, however recently it was used among the old.
    second.live.command.kill()
    await second.live.exited_within(10)
    await start(64)
    assert second.session_id not in [session.session_id for session in unit.sessions]
    assert not any(fake.is_killed for fake in executor.started if fake.command.argv == oldest.argv)
    await start(65)
    assert oldest.session_id not in [session.session_id for session in unit.sessions]
    assert len(unit.sessions) == PROCESS_LIMIT
    with pytest.raises(InvalidToolCall, match="made room"):
        await unit.write_stdin(StdinArguments(oldest.session_id))
    await unit.aclose()


async def test_short_command_takes_nobody_s_place() -> None:
    executor = FakeExecutor()
    unit = unified(executor)
    calls = (
        unit.exec_command(str(number), ExecArguments(str(number), yield_time_ms=1))
        for number in range(PROCESS_LIMIT)
    )
    await asyncio.gather(*calls)
    before = [session.session_id for session in unit.sessions]
    executor.behave = saying(0)
    assert (await unit.exec_command("short", ExecArguments("true"))).exit_code == 0
    assert [session.session_id for session in unit.sessions] == before
    await unit.aclose()


async def test_calls_about_one_command_take_turns() -> None:
    executor = FakeExecutor()
    unit = unified(executor)
    await unit.exec_command("call", ExecArguments("sh", tty=True, yield_time_ms=1))
    first = asyncio.create_task(unit.write_stdin(StdinArguments(1000, chars="a")))
    second = asyncio.create_task(unit.write_stdin(StdinArguments(1000, chars="b")))
    await executor.started[0].was_written.wait()
    executor.started[0].say(b"A")
    executor.started[0].end(0)
    # The second finds that it has ended, and types nothing.
    assert [(await first).output, (await second).output] == ["A", ""]
    assert (await second).exit_code == 0
    assert executor.started[0].written == b"a"


async def test_end_that_is_not_known_is_not_an_exit_code() -> None:
    executor = FakeExecutor()

    def lose(command: FakeCommand) -> None:
        command.say(b"half\n")
        command.lose(ProcessLost("p", "the server is gone"))

    executor = FakeExecutor(lose)
    async with paddock.Agent(executor) as tools:
        events = tools.events()
        reply = await called(tools, "exec_command", cmd="make")
    assert (reply.exit_code, reply.session_id) == (None, None)
    assert reply.output.startswith("half\n")
    assert any("the server is gone" in note for note in reply.notes)
    [end] = [event async for event in events if isinstance(event, ExecCommandEnd)]
    assert (end.exit_code, end.status) == (-1, "failed")
    assert "the server is gone" in end.aggregated_output


async def test_lost_output_is_told_where_it_is_missing() -> None:
    def behave(command: FakeCommand) -> None:
        command.say(b"before")
        command.say(Gap(2, 3, 512))
        command.say(b"after")
        command.end(0)

    async with paddock.Agent(FakeExecutor(behave)) as tools:
        reply = await called(tools, "exec_command", cmd="make")
    assert reply.output == (
        "before\n[up to 512 bytes of output are lost: the connection was interrupted]\nafter"
    )


async def test_output_that_keeps_coming_behind_the_exit_is_waited_for() -> None:
    class Late(FakeCommand):
        async def output(self) -> AsyncIterator[Output | Gap]:
            # Far longer in all than a call waits for the end of an output that is silent.
            for number in range(100):
                await asyncio.sleep(0.002)
                yield Output(Stream.STDOUT, b"%d\n" % number)

    class Lagging(FakeExecutor):
        async def start(self, command: Command) -> FakeCommand:
            late = Late(command)
            late.end(0)
            return late

    async with paddock.Agent(Lagging()) as tools:
        reply = await called(tools, "exec_command", cmd="make")
    assert (reply.exit_code, reply.notes) == (0, ())
    assert reply.output.endswith("\n98\n99\n")


async def test_output_that_a_child_holds_open_is_not_waited_for() -> None:
    def behave(command: FakeCommand) -> None:
        command.say(b"started\n")
        command.end(0, closes_output=False)

    async with paddock.Agent(FakeExecutor(behave)) as tools:
        reply = await called(tools, "exec_command", cmd="daemon &")
    assert (reply.exit_code, reply.output) == (0, "started\n")
    assert any("output is still open" in note for note in reply.notes)


async def test_command_of_a_call_that_is_under_way_ends_with_the_agent() -> None:
    started = asyncio.Event()
    executor = FakeExecutor(lambda _: started.set())
    async with paddock.Agent(executor) as tools:
        events = tools.events()
        call = asyncio.create_task(tools.call("exec_command", {"cmd": "x", "yield_time_ms": 30_000}))
        await started.wait()
    assert executor.started[0].is_killed
    # Neither the call nor the events wait for more, and both tell the end.
    assert (await call).exit_code == 137
    ends = [event async for event in events if isinstance(event, ExecCommandEnd)]
    assert [end.exit_code for end in ends] == [137]


async def test_command_that_does_not_end_with_its_agent_has_an_end_that_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("paddock.agent.unified_exec.CLOSE_S", 0.01)
    monkeypatch.setattr(FakeCommand, "kill", lambda self: None)
    started = asyncio.Event()
    async with paddock.Agent(FakeExecutor(lambda _: started.set())) as tools:
        events = tools.events()
        call = asyncio.create_task(called(tools, "exec_command", cmd="x", yield_time_ms=30_000))
        await started.wait()
    reply = await call
    assert (reply.exit_code, reply.session_id) == (None, None)
    assert any("the agent was closed" in note for note in reply.notes)
    ends = [event async for event in events if isinstance(event, ExecCommandEnd)]
    assert [(end.exit_code, end.status) for end in ends] == [(-1, "failed")]


async def test_start_that_fails_is_told_and_keeps_no_number() -> None:
    class Broken(FakeExecutor):
        async def start(self, command: object) -> FakeCommand:
            raise ConnectError("ws://x", "no answer")

    async with paddock.Agent(Broken()) as tools:
        reply = await tools.call("exec_command", {"cmd": "make"})
        assert tools.sessions == []
    assert reply.is_error
    assert reply.text.startswith("exec_command failed: ")


async def test_events_of_a_command_that_is_typed_to() -> None:
    executor = FakeExecutor()
    async with paddock.Agent(executor) as tools:
        events = tools.events()
        reply = await tools.call("exec_command", {"cmd": "sh", "tty": True, "yield_time_ms": 1}, call_id="c1")
        assert isinstance(reply, ExecReply)
        executor.started[0].say("ä".encode())
        await tools.call("write_stdin", {"session_id": reply.session_id, "chars": "x"})
        executor.started[0].end(0)
        await tools.call("write_stdin", {"session_id": reply.session_id})
    told = [event async for event in events]
    assert all(getattr(event, "call_id", "c1") == "c1" for event in told)
    kinds = [type(event).__name__ for event in told]
    assert kinds == ["ExecCommandBegin", "TerminalInteraction", "ExecCommandOutputDelta", "ExecCommandEnd"]
    begin, typed, _, end = told
    assert isinstance(begin, ExecCommandBegin)
    assert isinstance(typed, TerminalInteraction)
    assert isinstance(end, ExecCommandEnd)
    assert (typed.stdin, typed.process_id, end.stdout) == ("x", begin.process_id, "ä")


async def test_what_was_typed_is_told_before_the_end_that_it_brings_about() -> None:
    executor = FakeExecutor()
    unit = unified(executor)
    events = unit.events.reader()
    await unit.exec_command("call", ExecArguments("sh", tty=True, yield_time_ms=1))
    typing = asyncio.create_task(unit.write_stdin(StdinArguments(1000, chars="exit\n")))
    late = asyncio.create_task(unit.write_stdin(StdinArguments(1000, chars="more\n")))
    await executor.started[0].was_written.wait()
    executor.started[0].end(0)
    await asyncio.gather(typing, late)
    unit.events.close()
    told = [event async for event in events]
    # What could not be typed any more is not told as typed.
    assert [getattr(event, "stdin", None) for event in told] == [None, "exit\n", None]
    assert isinstance(told[-1], ExecCommandEnd)


async def test_login_shell_is_offered_only_where_it_is_allowed() -> None:
    executor = FakeExecutor(saying(0))
    for allowed in (False, True):
        async with paddock.Agent(executor, allow_login_shell=allowed) as tools:
            properties = tools.schemas("openai")[0]["parameters"]["properties"]
            assert ("login" in properties) == allowed
            wanted = await tools.call("exec_command", {"cmd": "x", "login": True})
            await called(tools, "exec_command", cmd="x", login=False)
            await called(tools, "exec_command", cmd="x")
        assert wanted.is_error == ("leave `login` out" in wanted.text) == (not allowed)
    assert [started.command.argv[1] for started in executor.started] == ["-c", "-c", "-lc", "-c", "-lc"]


async def test_model_that_does_not_say_gets_ten_thousand_tokens_at_most() -> None:
    unit = unified(FakeExecutor(saying(0, output=b"x" * 200_000)), limit_tokens=100_000)
    silent = await unit.exec_command("call", ExecArguments("x"))
    asking = await unit.exec_command("call", ExecArguments("x", max_output_tokens=60_000))
    assert 39_000 < len(silent.output) < 41_000
    assert asking.output == "x" * 200_000


async def test_refusal_is_short_however_long_its_reason_is() -> None:
    async def refuse(request: paddock.ApprovalRequest) -> paddock.ApprovalDecision:
        return paddock.ApprovalDecision(paddock.Approval.DENIED, "no " * 100_000)

    async with paddock.Agent(FakeExecutor(), approver=refuse, approval_policy="untrusted") as tools:
        reply = await tools.call("exec_command", {"cmd": "x"})
    assert reply.is_error
    assert len(reply.text) < 900 * 4 + 200


async def test_all_commands_are_ended_at_once() -> None:
    executor = FakeExecutor()
    async with paddock.Agent(executor) as tools:
        for _ in range(2):
            await called(tools, "exec_command", cmd="x", yield_time_ms=250)
        assert [session.is_running for session in tools.sessions] == [True, True]
        assert tools.terminate_all() == 2
        assert all(fake.is_killed for fake in executor.started)
        for session in tools.sessions:
            assert (await called(tools, "write_stdin", session_id=session.session_id)).exit_code == 137
            assert session.exit_code == 137


async def test_whole_reply_fits_the_policy_of_the_model() -> None:
    executor = FakeExecutor(saying(0, output=b"word " * 10_000))
    unit = unified(executor, limit_tokens=500)
    reply = await unit.exec_command("call", ExecArguments("x", max_output_tokens=100_000))
    assert len(reply.text.encode()) <= 500 * 4 * 1.2
    assert reply.original_tokens == 12_500
    small = await unit.exec_command("call", ExecArguments("x", max_output_tokens=10))
    assert len(small.text.encode()) < 300


async def test_command_that_ends_in_the_background_is_told_at_once() -> None:
    executor = FakeExecutor()
    told: asyncio.Queue[paddock.CommandSession] = asyncio.Queue()
    async with paddock.Agent(executor, when_ended=told.put_nowait) as tools:
        executor.behave = saying(0)
        await called(tools, "exec_command", cmd="awaited")
        executor.behave = None
        running = await called(tools, "exec_command", cmd="background", yield_time_ms=250)
        executor.started[1].say(b"done\n")
        executor.started[1].end(5)
        session = await told.get()
        assert session.session_id == running.session_id
        assert told.empty()
        reply = await called(tools, "write_stdin", session_id=session.session_id)
    assert (reply.exit_code, reply.output) == (5, "done\n")


async def test_line_that_was_returned_before_is_not_waited_for() -> None:
    executor = FakeExecutor(lambda command: command.say(b"ready\n"))
    async with paddock.Agent(executor) as tools:
        reply = await called(tools, "exec_command", cmd="x", yield_time_ms=250)
        assert reply.output == "ready\n"
        again = asyncio.create_task(
            called(tools, "write_stdin", session_id=reply.session_id, wait_for={"pattern": "ready"})
        )
        done, _ = await asyncio.wait((again,), timeout=0.05)
        assert not done
        executor.started[0].say(b"ready once more\n")
        assert (await again).output == "ready once more\n"
