"""Holds a recorded conversation with a server and stops at the first step that the server does not follow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import assert_never

from websockets.asyncio.client import connect

from tests.conformance.client import CHUNK_SHAPE, Client, Message, is_answer_to, is_event_of, joined
from tests.conformance.pattern import Mismatch, check, check_streams, fill, shown
from tests.conformance.transcript import (
    Close,
    ConnectionStep,
    Expect,
    ExpectClosed,
    ExpectFile,
    ExpectOutput,
    ExpectProcess,
    ExpectRead,
    ExpectSilence,
    LiveOutput,
    MakeDirectory,
    ProcessEnd,
    Send,
    SendBinary,
    SendRaw,
    Setup,
    Sleep,
    Step,
    Touch,
    Transcript,
)
from tests.conformance.workplace import VARIABLE, Workplace


class ReplayFailed(Exception):
    """The server did not follow the step of this number."""

    def __init__(self, transcript: str, number: int, step: Step, problem: Mismatch) -> None:
        super().__init__(transcript, number, step, problem)
        self.transcript = transcript
        self.number = number
        self.step = step
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.transcript}, step {self.number}: {self.problem}\n{self.step}"


async def replay(transcript: Transcript, url: str) -> None:
    """Hold the conversation with the server at `url`. Raises ReplayFailed. Leaves no connection open."""
    async with AsyncExitStack() as stack:
        root = stack.enter_context(TemporaryDirectory(prefix="paddock-"))
        replayer = _Replayer(url, stack, Workplace(Path(root)))
        for line in transcript.lines:
            try:
                await replayer.run(line.step)
            except Mismatch as problem:
                raise ReplayFailed(transcript.name, line.number, line.step, problem) from problem


class _Replayer:
    """The connections, the directory and the captured values of one conversation."""

    def __init__(self, url: str, stack: AsyncExitStack, workplace: Workplace) -> None:
        self._url = url
        self._stack = stack
        self._workplace = workplace
        self._clients: dict[str, Client] = {}
        self._captured: dict[str, str] = {VARIABLE: workplace.path}

    async def run(self, step: Step) -> None:
        """Do one step. Raises Mismatch."""
        match step:
            case Sleep():
                await asyncio.sleep(step.sleep)
            case Close():
                await self._clients.pop(step.close).close()
            case Setup():
                self._workplace.set_up(step.setup)
            case ExpectFile():
                self._workplace.check_file(step.expect_file, step.content)
            case Touch():
                self._workplace.touch(step.touch)
            case MakeDirectory():
                self._workplace.make_directory(step.mkdir)
            case _:
                await self._talk(await self._client(step.conn), step)

    async def _client(self, name: str) -> Client:
        if name not in self._clients:
            # No pings, no proxy and no limit of size: nothing that the recording does not say.
            connection = connect(self._url, compression=None, max_size=None, ping_interval=None, proxy=None)
            self._clients[name] = Client(await self._stack.enter_async_context(connection))
        return self._clients[name]

    async def _talk(self, client: Client, step: ConnectionStep) -> None:
        match step:
            case Send():
                await client.send(json.dumps(fill(step.send, self._captured)))
            case SendRaw():
                await client.send(step.send_raw)
            case SendBinary():
                await client.send(step.send_binary)
            case Expect():
                await self._expect(client, step)
            case ExpectProcess():
                await _expect_process(client, step.expect_process)
            case ExpectOutput():
                await _expect_output(client, step.expect_output)
            case ExpectRead():
                await _expect_read(client, step.expect_read)
            case ExpectClosed():
                await client.closed()
                del self._clients[step.conn]
            case ExpectSilence():
                await client.silence(step.expect_silence)
            case _:
                assert_never(step)

    async def _expect(self, client: Client, step: Expect) -> None:
        pattern = fill(step.expect, self._captured)
        message = await (client.next() if step.in_order else client.pick(_selector(pattern)))
        check(pattern, message)
        for name, place in step.capture.items():
            value = message
            for key in place.split("."):
                value = value[key]
            self._captured[name] = str(value)


def _selector(pattern: Message) -> Callable[[Message], bool]:
    if "method" in pattern:
        return lambda message: bool(message.get("method") == pattern["method"])
    return lambda message: is_answer_to(pattern["id"], message)


async def _expect_process(client: Client, end: ProcessEnd) -> None:
    events = await client.process_events(end.process_id)
    exits = [event["params"] for event in events if event["method"] == "process/exited"]
    if len(exits) != 1:
        raise Mismatch(f"expected one process/exited, got {len(exits)}")
    check_streams(end.output, joined(e["params"] for e in events if e["method"] == "process/output"))
    check(end.exit_code, exits[0]["exitCode"], "exitCode")
    check(end.sandbox_denied, exits[0]["sandboxDenied"], "sandboxDenied")


async def _expect_output(client: Client, output: LiveOutput) -> None:
    def is_output(message: Message) -> bool:
        is_event = is_event_of(output.process_id, message) and message["method"] == "process/output"
        return is_event and bool(message["params"]["stream"] == output.stream)

    wanted = output.text.encode()
    received = b""
    while len(received) < len(wanted):
        event = await client.pick(is_output)
        received += joined([event["params"]])[output.stream]
        if not wanted.startswith(received[: len(wanted)]):
            raise Mismatch(f"expected output that begins with {wanted!r}, got {received!r}")


async def _expect_read(client: Client, expected: Message) -> None:
    pattern = dict(expected)
    request_id, output = pattern.pop("id"), pattern.pop("output")
    message = await client.pick(lambda message: is_answer_to(request_id, message))
    check({"id": request_id, "result": {**pattern, "chunks": "<any>"}}, message)
    chunks = message["result"]["chunks"]
    for index, chunk in enumerate(chunks):
        check(CHUNK_SHAPE, chunk, f"$.result.chunks[{index}]")
    seqs = [chunk["seq"] for chunk in chunks]
    if seqs != sorted(set(seqs)):
        raise Mismatch(f"the chunks are numbered {shown(seqs)}")
    check_streams(output, joined(chunks))
