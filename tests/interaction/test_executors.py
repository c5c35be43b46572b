"""What every executor promises: the real ones, and the fake that tests of agents rest on."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import paddock
from paddock.agent.box_executor import BoxExecutor
from paddock.client.confinement import Sandbox
from paddock.errors import InvalidRequest, NotFound, RequestError, StdinClosed
from tests.interaction.test_agent import memory_box
from tests.wire import served


def play(command: paddock.FakeCommand) -> None:
    """Do what the few commands of these tests do."""
    match command.command.argv[-1]:
        case "echo hello":
            command.say(b"hello\n")
            command.end(0)
        case "exit 3":
            command.end(3)
        case "cat":

            def finish() -> None:
                command.say(bytes(command.written))
                command.end(0)

            command.when_closed = finish
        case "echo ready; exec sleep 1000":
            command.say(b"ready\n")
        case other:
            raise AssertionError(other)


@dataclass(frozen=True)
class Ground:
    """An executor, and a directory that it may write."""

    executor: paddock.Executor
    directory: str

    def command(self, line: str, *, has_stdin: bool = False) -> paddock.Command:
        sandbox = Sandbox(":workspace", (self.directory,))
        return paddock.Command(
            argv=("/bin/sh", "-c", line), cwd=self.directory, sandbox=sandbox, has_stdin=has_stdin
        )

    @property
    def files(self) -> paddock.FileAccess:
        return self.executor.files(Sandbox(":workspace", (self.directory,)))


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="paddock-executor-", dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture(params=["memory", "websocket", "private", "fake"])
async def ground(request: pytest.FixtureRequest, directory: Path) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        if request.param == "fake":
            fake = paddock.FakeExecutor(play)
            yield Ground(fake, fake.cwd)
            return
        if request.param == "memory":
            box = await stack.enter_async_context(memory_box())
        else:
            url = None
            if request.param == "websocket":
                url = (await stack.enter_async_context(served())).url
            box = await stack.enter_async_context(paddock.connect(url))
        yield Ground(BoxExecutor(box, is_owner=False), str(directory))


async def output_of(command: paddock.RunningCommand) -> bytes:
    return b"".join([item.data async for item in command.output() if isinstance(item, paddock.Output)])


async def test_command_is_read_and_ends(ground: Ground) -> None:
    command = await ground.executor.start(ground.command("echo hello"))
    assert await output_of(command) == b"hello\n"
    assert (await command.wait()).exit_code == 0
    failed = await ground.executor.start(ground.command("exit 3"))
    ending = await failed.wait()
    assert (ending.exit_code, ending.sandbox_denied, ending.denials) == (3, False, ())
    # Whoever asks again hears the same.
    assert await failed.wait() == ending


async def test_input_is_read_to_its_end(ground: Ground) -> None:
    command = await ground.executor.start(ground.command("cat", has_stdin=True))
    await command.write(b"one ")
    await command.write(b"two")
    await command.close_stdin()
    assert await output_of(command) == b"one two"
    assert (await command.wait()).exit_code == 0


async def test_nothing_can_be_written_to_a_command_that_has_ended_or_has_no_input(ground: Ground) -> None:
    ended = await ground.executor.start(ground.command("cat", has_stdin=True))
    await ended.close_stdin()
    await ended.wait()
    with pytest.raises(StdinClosed):
        await ended.write(b"x")
    silent = await ground.executor.start(ground.command("echo ready; exec sleep 1000"))
    with pytest.raises(StdinClosed):
        await silent.write(b"x")
    silent.kill()


@pytest.mark.parametrize(("is_killed", "exit_code"), [(False, 130), (True, 137)])
async def test_command_is_interrupted_or_killed(ground: Ground, is_killed: bool, exit_code: int) -> None:
    command = await ground.executor.start(ground.command("echo ready; exec sleep 1000"))
    output = command.output()
    assert isinstance(await anext(output), paddock.Output)
    if is_killed:
        command.kill()
    else:
        await command.interrupt()
    assert (await command.wait()).exit_code == exit_code
    # Both are nothing to a command that has ended.
    command.kill()
    await command.interrupt()


async def test_two_may_wait_for_one_command(ground: Ground) -> None:
    command = await ground.executor.start(ground.command("echo ready; exec sleep 1000"))
    waiting = [asyncio.create_task(command.wait()) for _ in range(2)]
    await asyncio.wait(waiting, timeout=0)
    waiting[0].cancel()
    command.kill()
    assert (await waiting[1]).exit_code == 137


async def test_files_are_written_read_and_removed(ground: Ground) -> None:
    files, path = ground.files, f"{ground.directory}/sub/file.txt"
    with pytest.raises(NotFound):
        await files.read_file(path)
    with pytest.raises(NotFound):
        await files.write_file(path, b"x", atomic=True)
    await files.create_directory(f"{ground.directory}/sub")
    await files.write_file(path, b"one\ntwo\n", atomic=True)
    assert await files.read_file(path) == b"one\ntwo\n"
    assert "+three" in (await files.edit(path, "two", "three", 1)).splitlines()
    with pytest.raises(InvalidRequest):
        await files.edit(path, "two", "four", 1)
    metadata = await files.metadata(path)
    assert (metadata.is_file, metadata.is_directory, metadata.size) == (True, False, 10)
    assert (await files.metadata(f"{ground.directory}/sub")).is_directory
    await files.set_mode(path, 0o750)
    assert (await files.metadata(path)).mode == 0o750
    assert await files.canonicalize(f"{ground.directory}/./sub/../sub/file.txt") == path
    with pytest.raises(RequestError):
        await files.remove(f"{ground.directory}/sub", recursive=False)
    await files.remove(path, recursive=False)
    await files.remove(path, recursive=False)
    with pytest.raises(NotFound):
        await files.metadata(path)
    with pytest.raises(NotFound):
        await files.canonicalize(path)
    await files.remove(f"{ground.directory}/sub", recursive=False)
    with pytest.raises(NotFound):
        await files.metadata(f"{ground.directory}/sub")


async def test_files_are_listed_and_searched(ground: Ground) -> None:
    files, top = ground.files, f"{ground.directory}/top"
    await files.create_directory(f"{top}/a/b")
    for name, text in (("a/one.txt", b"first\nsecond\n"), ("a/b/two.txt", b"Second\n")):
        await files.write_file(f"{top}/{name}", text)
    near = await files.walk(f"{top}/a", max_depth=0, max_entries=100)
    assert near.files == [f"{top}/a/one.txt"]
    assert f"{top}/a/b" in near.directories
    far = await files.walk(top, max_depth=5, max_entries=100)
    assert sorted(far.files) == [f"{top}/a/b/two.txt", f"{top}/a/one.txt"]
    found = await files.search(top, "second")
    assert [(match.path, match.line, match.text) for match in found.matches] == [
        (f"{top}/a/one.txt", 2, "second")
    ]
    both = await files.search(top, "sec.nd", regex=True, case_sensitive=False)
    assert sorted(match.path for match in both.matches) == [f"{top}/a/b/two.txt", f"{top}/a/one.txt"]
    named = await files.search(top, "two", kind="name")
    assert [match.path for match in named.matches] == [f"{top}/a/b/two.txt"]
    few = await files.search(top, "second", case_sensitive=False, max_matches=1)
    assert (len(few.matches), few.is_truncated) == (1, True)
