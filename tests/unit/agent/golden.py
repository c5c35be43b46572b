"""What a model reads of commands that end, fail, run on and write too much: cases and their texts.

`python -m tests.unit.agent.golden` writes the texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import paddock
from paddock.agent.fake_executor import FakeCommand, FakeExecutor
from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.errors import ProcessLost
from paddock.model.denial import Denial, DenialKind
from tests.unit.agent.scene import Answers, write_denied

GOLDEN: Final = Path(__file__).parents[2] / "data" / "agent" / "replies.txt"
_SECTION = re.compile(r"^=== ([^\n]*) ===\n(.*?)\n=== end ===\n", re.MULTILINE | re.DOTALL)

MIB: Final = 1 << 20


@dataclass(frozen=True)
class Case:
    """One call of a tool."""

    name: str
    output: tuple[bytes | Gap, ...] = ()
    end: Ending | int | None = 0
    """None for a command that runs on."""
    arguments: dict[str, Any] = field(default_factory=dict)
    tool: str = "exec_command"
    agent: dict[str, Any] = field(default_factory=dict)
    answers: tuple[str | paddock.ApprovalDecision, ...] = ()
    is_lost: bool = False
    is_held: bool = False
    """Whether a child keeps the output open."""


def lines(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(count))


def limited(tokens: int) -> dict[str, Any]:
    return {"max_output_tokens": tokens}


def network_denied() -> Ending:
    return Ending(7, denials=(Denial(DenialKind.NETWORK, "example.org:443", "network = restricted", True),))


ON_FAILURE: Final = {"approval_policy": "on-failure", "profile": ":read-only"}
UNTRUSTED: Final = {"approval_policy": "untrusted"}
ESCALATED: Final = {"sandbox_permissions": "require_escalated"}
PATCH: Final = "*** Begin Patch\n*** Update File: README\n@@\n-{}\n+bye\n*** End Patch"

CASES: Final = (
    Case("nothing written"),
    Case("one line", (b"hello\n",)),
    Case("one line without its end", (b"hello",)),
    Case("only ends of lines", (b"\n\n\n",)),
    Case("many lines", (lines(12),)),
    Case("ends of lines as on Windows", (b"one\r\ntwo\r\n",)),
    Case("output in pieces", (b"a", b"b", b"c\n")),
    Case("character across two pieces", ("ä".encode()[:1], "ä".encode()[1:])),
    Case("characters of two to four bytes", ("é€😀\n".encode(),)),
    Case("invalid UTF-8", (b"a\xff\xfeb\xc3\n",)),
    Case("binary", (bytes(range(0, 256, 17)),)),
    Case("NUL bytes", (b"a\0b\0",)),
    Case("escapes of a terminal", (b"\x1b[31mred\x1b[0m\n",)),
    Case("failure", (b"no such file\n",), 2),
    Case("not executable", (b"sh: x: Permission denied\n",), 126),
    Case("not found", (b"sh: x: not found\n",), 127),
    Case("ended by a signal", (), 143),
    Case("exactly the limit", (b"x" * 40,), arguments=limited(10)),
    Case("one byte over the limit", (b"x" * 41,), arguments=limited(10)),
    Case("many lines over the limit", (lines(100),), arguments=limited(20)),
    Case("one long line over the limit", (b"0123456789" * 100,), arguments=limited(20)),
    Case("wide characters over the limit", ("😀".encode() * 100,), arguments=limited(10)),
    Case("cut in the middle of a character", ("ä".encode() * 50 + b"x",), arguments=limited(7)),
    Case("invalid UTF-8 over the limit", (b"\xff" * 100,), arguments=limited(10)),
    Case("limit of one token", (lines(3),), arguments=limited(1)),
    Case("limit of no tokens", (lines(3),), arguments=limited(0)),
    Case("negative limit", (lines(3),), arguments=limited(-5)),
    Case(
        "limit of the agent below that of the call", (lines(200),), agent=limited(60), arguments=limited(900)
    ),
    Case("more than is kept", (b"head\n", b"x" * (2 * MIB), b"tail\n"), arguments=limited(10)),
    Case("exactly what is kept", (b"head\n", b"x" * (MIB - 10), b"tail\n"), arguments=limited(10)),
    Case("one byte more than is kept", (b"head\n", b"x" * (MIB - 9), b"tail\n"), arguments=limited(10)),
    Case("still running", (b"started\n",), None, {"yield_time_ms": 250}),
    Case("still running in silence", (), None, {"yield_time_ms": 250}),
    Case("awaited line", (b"ready\n",), None, {"wait_for": {"pattern": "^ready$"}}),
    Case("awaited silence", (b"working\n",), None, {"wait_for": {"idle_ms": 20}}),
    Case("lost output", (b"a\n", Gap(2, 9, 4096), b"b\n")),
    Case("lost output of unknown size", (b"a\n", Gap(2, 9, None), b"b\n")),
    Case("end that is not known", (b"half\n",), is_lost=True),
    Case("child that holds the output", (b"daemon started\n",), is_held=True),
    Case(
        "denied write", (b"Read-only file system\n",), write_denied("/etc/x"), agent={"profile": ":read-only"}
    ),
    Case("denied network", (b"could not resolve\n",), network_denied()),
    Case("vague denial", (b"denied\n",), Ending(1, sandbox_denied=True)),
    Case("denied and refused", (), write_denied("/work/README"), agent=ON_FAILURE, answers=("denied",)),
    Case("denied and approved", (), write_denied("/work/README"), agent=ON_FAILURE, answers=("approved",)),
    Case("denied and nobody answers", (), write_denied("/x"), agent=ON_FAILURE, answers=("timed_out",)),
    Case("denied on purpose", (), write_denied("/x", rule="/x = deny"), agent=ON_FAILURE),
    Case("not allowed to run", agent=UNTRUSTED, answers=("denied",)),
    Case(
        "not allowed to run, with a reason",
        agent=UNTRUSTED,
        answers=(paddock.ApprovalDecision(paddock.Approval.DENIED, "not today"),),
    ),
    Case("told to stop", agent=UNTRUSTED, answers=("abort",)),
    Case("approver that fails", agent=UNTRUSTED, answers=("perhaps",)),
    Case("escalation where nobody may be asked", arguments=ESCALATED, agent={"approval_policy": "never"}),
    Case("unknown session", tool="write_stdin", arguments={"session_id": 1}),
    Case("unknown tool", tool="shell"),
    Case("missing argument", tool="write_stdin"),
    Case("argument of another type", arguments={"tty": "yes"}),
    Case("unknown argument", arguments={"timeout": 5}),
    Case("pattern that is none", arguments={"wait_for": {"pattern": "("}}),
    Case("permissions without their word", arguments={"additional_permissions": {}}),
    Case("file", tool="read_file", arguments={"path": "README"}),
    Case("file that is not there", tool="read_file", arguments={"path": "missing"}),
    Case("line that is not there", tool="read_file", arguments={"path": "README", "offset": 9}),
    Case("edit that does not fit", tool="edit_file", arguments={"path": "README", "old": "x", "new": "y"}),
    Case("search that finds nothing", tool="search_files", arguments={"pattern": "zebra"}),
    Case("patch", tool="apply_patch", arguments={"input": PATCH.format("hello")}),
    Case("patch that does not fit", tool="apply_patch", arguments={"input": PATCH.format("hallo")}),
    Case("patch that is none", tool="apply_patch", arguments={"input": "--- a\n+++ b\n"}),
)


async def reply_of(case: Case) -> str:
    """The text of a case, without what differs from run to run."""
    executor = FakeExecutor(_behaviour(case))
    arguments = dict(case.arguments)
    if case.tool == "exec_command":
        arguments.setdefault("cmd", "command")
    agent: dict[str, Any] = {"approver": Answers(*case.answers)} | case.agent
    async with paddock.Agent(executor, **agent) as tools:
        text = (await tools.call(case.tool, arguments)).text
    text = re.sub(r"^Chunk: [0-9a-f]{6}$", "Chunk: ######", text, flags=re.MULTILINE)
    text = re.sub(r"^Time: \d+\.\d{4} s$", "Time: #.#### s", text, flags=re.MULTILINE)
    return re.sub(r"session_id: \d+", "session_id: ####", text)


def _behaviour(case: Case) -> Callable[[FakeCommand], None]:
    attempts = 0

    def behave(command: FakeCommand) -> None:
        nonlocal attempts
        attempts += 1
        for piece in case.output:
            command.say(piece)
        if case.is_lost:
            command.lose(ProcessLost("p", "the connection is lost"))
        elif attempts > 1:
            command.end(0)
        elif case.end is not None:
            command.end(case.end, closes_output=not case.is_held)

    return behave


def shown(text: str) -> str:
    """A text as the file has it: visible, one line for each line."""
    return "\n".join(line.encode("unicode_escape").decode("ascii") for line in text.split("\n"))


def known() -> dict[str, str]:
    """The texts of the file, by the names of their cases."""
    return dict(_SECTION.findall(GOLDEN.read_text(encoding="ascii")))


async def _sections() -> list[str]:
    return [f"=== {case.name} ===\n{shown(await reply_of(case))}\n=== end ===\n" for case in CASES]


def names() -> Iterator[str]:
    """The names of all cases."""
    return (case.name for case in CASES)


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text("\n".join(asyncio.run(_sections())), encoding="ascii")
