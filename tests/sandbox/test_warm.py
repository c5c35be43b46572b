"""Spare sandboxes: which commands get one, what they find there, and when one is of no use any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock.errors import ProfileRefused
from paddock.sandbox.enforce.janitor import Janitor, Masking, NotMasked
from paddock.sandbox.planner import Planner
from paddock.server.app import Server
from paddock.server.warm_sandboxes import WarmSandbox, WarmSandboxes
from tests.processes import children_of, descendants_of, has_ended, parent_of, watched
from tests.sandbox.helper_process import wait_until
from tests.sandbox.identity import PYTHON
from tests.sandbox.profiles import MINIMAL, ROOT, entry, sandbox, workspace_write
from tests.sandbox.ways import go, made
from tests.wire import Finished, WireClient, WireError, attach, served, shell, start_params

Json = dict[str, Any]

PLACES = {".agents", ".aws", ".codex", ".paddock"}

FACTS = """
umask; pwd; env | sort; id; ls /dev /dev/shm; set -- /proc/[0-9]*; echo $#; ls /proc/self/fd
cut -d ' ' -f 4- /proc/self/mountinfo; cat /proc/self/limits /proc/self/cgroup /proc/1/comm
grep -E '^(Sig|Shd|Cap|NoNewPrivs|Seccomp|Uid|Gid|Groups)' /proc/self/status; nice
"""
"""A script that tells all that a command can see of its surroundings, but for numbers that are always new."""


@pytest.fixture(name="workspace")
def repository(ground: Path) -> Path:
    """A repository outside /tmp, without the directories that are protected where they are missing."""
    workspace = ground / f"warm-{os.urandom(4).hex()}"
    for name in ("objects", "refs"):
        (workspace / ".git" / name).mkdir(parents=True)
    (workspace / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return workspace


@asynccontextmanager
async def warm_server(**settings: Any) -> AsyncIterator[tuple[Server, WireClient]]:
    async with served(**settings) as server:
        client = attach(server)
        await client.initialize(capabilities={"extensions": True})
        yield server, client


def pool_of(server: Server) -> WarmSandboxes:
    pool = server._enclosures.sandboxes._warm
    assert pool is not None
    return pool


async def run(client: WireClient, *argv: str, **params: Any) -> tuple[str, Finished]:
    """Run a command, and tell how its sandbox came about."""
    process_id = os.urandom(4).hex()
    answer = await client.start(process_id, *argv, **params)
    return answer["sandboxStart"], await client.finish(process_id)


async def text_of(client: WireClient, script: str, **params: Any) -> str:
    """What a script says that gets a spare sandbox."""
    way, done = await run(client, *shell(script), **params)
    assert (way, done.exit_code) == ("warm", 0), done.streams
    return done.streams.get("stdout", b"").decode()


def spares_of(server: Server) -> list[WarmSandbox]:
    return [warm for waiting in pool_of(server)._spares.values() for warm in waiting]


async def ended(spares: Iterable[WarmSandbox]) -> None:
    """Wait until spares have ended by themselves, or somebody has ended them."""
    await asyncio.wait([warm.holder._ended for warm in spares])


def _is_spare(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"\0wait=" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


# --- the life of a spare ----------------------------------------------------


async def test_the_next_command_of_a_kind_finds_its_sandbox_ready(workspace: Path) -> None:
    kind: Json = {"sandbox": workspace_write(workspace), "cwd": str(workspace)}
    async with warm_server() as (server, client):
        first, _ = await run(client, "/bin/true", **kind)
        await made(pool_of(server))
        assert len(pool_of(server)) == 2
        second, done = await run(client, "/bin/sh", "-c", "exit 7", **kind)
        elsewhere, _ = await run(client, "/bin/true", sandbox=workspace_write(workspace), cwd="/")
        assert (first, second, elsewhere, done.exit_code) == ("cold", "warm", "cold", 7)
        await made(pool_of(server))
        # One of each kind, for there may be two.
        assert {cwd for _, cwd in pool_of(server)._spares} == {"/", str(workspace)}
        starts = server._services.metrics.sandbox_starts
    assert starts == {"warm": 1, "cold": 2}


async def test_a_server_that_keeps_none_starts_every_command_cold(workspace: Path) -> None:
    async with warm_server(warm_sandboxes=0) as (server, client):
        ways = {(await run(client, "/bin/true", sandbox=workspace_write(workspace)))[0] for _ in range(3)}
        assert server._enclosures.count_spares() == 0
    assert ways == {"cold"}


async def test_an_idle_spare_holds_no_place_and_its_command_can_make_none(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "ls -A; mkdir -p .codex/x .aws/x; echo x > .git/config; rmdir .agents; echo ok > new"
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        assert os.listdir(workspace) == [".git"]
        go("warm", monkeypatch)
        way, done = await run(client, *shell(script), sandbox=workspace_write(workspace), cwd=str(workspace))
        assert way == "warm"
        assert set(done.streams["stdout"].decode().split()) >= PLACES
        assert done.streams["stderr"].count(b"Read-only file system") == 3
        assert sorted(os.listdir(workspace)) == [".git", "new"]
    (workspace / ".codex" / "x").mkdir(parents=True)


async def test_where_masks_can_not_be_mounted_late_the_sandbox_is_made_anew(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = Janitor.finish_masking

    def refuse(self: Janitor, masking: Masking) -> None:
        finish(self, masking)
        self.release(masking.placeholders, was_killed=False)
        raise NotMasked

    monkeypatch.setattr(Janitor, "finish_masking", refuse)
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        way, done = await run(
            client, *shell(f"mkdir {workspace}/.codex/x"), sandbox=workspace_write(workspace)
        )
    assert (way, done.exit_code) == ("cold", 1)
    assert b"Read-only" in done.streams["stderr"]
    assert os.listdir(workspace) == [".git"]


async def test_a_spare_that_dies_when_it_is_taken_is_replaced_by_a_sandbox_of_its_own(
    workspace: Path,
) -> None:
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        for warm in spares_of(server):
            warm.holder._group.kill()
        way, done = await run(client, *shell("echo once"), sandbox=workspace_write(workspace))
    assert (way, done.exit_code, done.streams) == ("cold", 0, {"stdout": b"once\n"})


async def test_a_spare_whose_taker_is_gone_is_let_go_of_only_when_it_is_not_in_use(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread enters its namespaces: a descriptor that is closed meanwhile may soon be another client's."""
    begin, in_use, may_go_on = Janitor.begin_masking, threading.Event(), threading.Event()
    seen: list[list[os.stat_result]] = []

    def begin_slowly(
        self: Janitor, placeholders: Any, namespaces: Sequence[int], *, waits: bool = False
    ) -> Masking | None:
        if not waits:
            return None
        files = list(namespaces)
        seen.append([os.fstat(file) for file in files])
        in_use.set()
        assert may_go_on.wait(30.0)
        seen.append([os.fstat(file) for file in files])
        return begin(self, placeholders, namespaces, waits=True)

    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        pids = [warm.holder._group.pid for warm in spares_of(server)]
        monkeypatch.setattr(Janitor, "begin_masking", begin_slowly)
        client.request(
            "process/start", start_params("taken", "/bin/true", sandbox=workspace_write(workspace))
        )
        await asyncio.to_thread(in_use.wait, 30.0)
        (connection,) = server._connections
        await connection.session.aclose()
        may_go_on.set()
    assert seen[0] == seen[1]
    assert os.listdir(workspace) == [".git"]
    assert not [pid for pid in pids if parent_of(pid) is not None]


async def test_a_start_that_needs_another_sandbox_leaves_no_place(workspace: Path) -> None:
    """The janitor begins before anybody has looked whether the spare will do."""
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace), cwd=str(workspace))
        await made(pool_of(server))
        (workspace / ".codex").mkdir()
        way, done = await run(client, *shell("ls -A"), sandbox=workspace_write(workspace), cwd=str(workspace))
        assert (way, set(done.streams["stdout"].decode().split())) == ("cold", PLACES | {".git"})
    assert sorted(os.listdir(workspace)) == [".codex", ".git"]


async def test_a_start_whose_plan_is_refused_leaves_no_place(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ProfileRefused("the sandbox", "is refused", "try again")

    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        spares = spares_of(server)
        monkeypatch.setattr(Planner, "plan", refuse)
        with pytest.raises(WireError, match="is refused"):
            await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await ended(spares[:1])
    assert os.listdir(workspace) == [".git"]


async def test_a_spare_is_taken_while_another_command_has_its_places(workspace: Path) -> None:
    kind: Json = {"sandbox": workspace_write(workspace), "cwd": str(workspace)}
    async with warm_server() as (server, client):
        await run(client, "/bin/true", **kind)
        await made(pool_of(server))
        os.mkfifo(workspace / "fifo")
        await client.start("first", *shell("read line < fifo"), **kind)
        way, _ = await run(client, "/bin/true", **kind)
        assert way == "warm"
        assert set(os.listdir(workspace)) == PLACES | {".git", "fifo"}
        await asyncio.to_thread((workspace / "fifo").write_text, "go on\n")
        await client.finish("first")
    assert sorted(os.listdir(workspace)) == [".git", "fifo"]


async def test_nobody_waits_for_a_spare_longer_than_it_may_wait(workspace: Path) -> None:
    async with warm_server(warm_ttl_s=0.05) as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        spares = spares_of(server)
        if spares:
            await ended(spares)
        ends = server._services.metrics.warm_ends
        assert (len(pool_of(server)), ends["lost"], ends["expired"] > 0) == (0, 0, True)


async def test_spares_leave_no_process_and_no_descriptor(workspace: Path) -> None:
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        spares = spares_of(server)
        pids = [warm.holder._group.pid for warm in spares]
        before = len(os.listdir("/proc/self/fd"))
        pool_of(server).forget(spares[0].key)
        while pool_of(server)._closings:
            await asyncio.wait(pool_of(server)._closings)
        assert len(spares) == 2
        # Control, two namespaces, report, pid and pidfd of each.
        assert len(os.listdir("/proc/self/fd")) == before - 6 * len(spares)
    assert not [pid for pid in pids if parent_of(pid) is not None]


async def test_a_server_that_ended_leaves_no_process_in_a_program_that_goes_on(workspace: Path) -> None:
    before = set(children_of(os.getpid()))
    async with warm_server() as (_, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
    await asyncio.to_thread(wait_until, lambda: set(children_of(os.getpid())) == before)


@pytest.fixture
def killed_later(place: Path) -> Iterator[tuple[int, str]]:
    """A server that somebody else ends, and its address."""
    url = f"unix://{place}/socket"
    command = [sys.executable, "-m", "paddock", "serve", "--listen", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        server.stdout.readline()
        yield server.pid, url


async def test_spares_go_with_a_server_that_is_killed(workspace: Path, killed_later: tuple[int, str]) -> None:
    server, url = killed_later
    async with paddock.connect(url) as box:
        await box.run(["true"], cwd=workspace, sandbox=":workspace")
        while not (waiting := [pid for pid in descendants_of(server) if _is_spare(pid)]):
            await box.run(["true"])
        with contextlib.ExitStack() as opened:
            spares = [opened.enter_context(watched(pid)) for pid in waiting]
            os.kill(server, signal.SIGKILL)
            for spare in spares:
                assert await asyncio.to_thread(has_ended, spare, 30.0)


# --- what a command finds ---------------------------------------------------


async def test_a_command_finds_the_same_in_both(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / ".env").write_text("secret")
    pattern = {"type": "glob_pattern", "pattern": f"{workspace}/**/*.env"}
    wanted = workspace_write(workspace)
    wanted["permissions"]["file_system"]["entries"].append({"path": pattern, "access": "deny"})
    wanted["permissions"]["limits"] = {"openFiles": 100}
    told = {}
    async with warm_server() as (_, client):
        for way in ("cold", "warm"):
            with monkeypatch.context() as patch:
                go(way, patch)
                got, done = await run(client, *shell(FACTS), sandbox=wanted, cwd=str(workspace))
                assert got == way
                told[way] = sorted(done.streams["stdout"].decode().splitlines())
    assert told["warm"] == told["cold"]
    assert any(".codex" in line for line in told["warm"])


LEAVINGS = {
    "processes": ("(setsid sleep 1000 &) ; sleep 1000 &", "set -- /proc/[0-9]*; echo $#"),
    "files in /dev/shm": ("echo x > /dev/shm/x", "ls -A /dev/shm"),
    "files in a private directory": ("echo x > /tmp/x; mkdir -p /run/x; true", "ls -AR /tmp /run 2>&1; true"),
    "umask": ("umask 077", "umask"),
    "limits": ("ulimit -n 32; ulimit -f 1", "ulimit -a"),
    "signals": ("trap '' TERM INT HUP; kill -TERM 0; true", "grep -E '^(Sig|Shd)' /proc/self/status"),
    "working directory": ("cd /usr; exec true", "pwd; ls -l /proc/self/cwd | sed 's/.*->//'"),
    "variables": ("export LEFT=1", "env"),
    "descriptors": ("exec 7</usr 8>/dev/null", "ls /proc/self/fd"),
    "priority": ("renice -n 19 $$ >/dev/null", "nice"),
    "names": ("hostname left 2>/dev/null; true", "cat /proc/sys/kernel/hostname"),
    "shared memory": (
        f"{PYTHON} -c 'import ctypes; ctypes.CDLL(None).shmget(7, 64, 0o1666)'",
        "cat /proc/sysvipc/shm",
    ),
}


@pytest.mark.parametrize(("leave", "look"), LEAVINGS.values(), ids=LEAVINGS)
async def test_nothing_of_a_command_is_there_for_the_next(
    leave: str, look: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go("warm", monkeypatch)
    kind = {"sandbox": sandbox(entry(MINIMAL, "read"), entry(workspace, "write")), "cwd": str(workspace)}
    async with warm_server() as (_, client):
        before = await text_of(client, look, **kind)
        await text_of(client, leave, **kind)
        assert await text_of(client, look, **kind) == before


KEYS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
# add_key(2) to the session's keyring, and request_key(2).
print(libc.syscall(248, b"user", b"left", b"x", 1, -3), libc.syscall(249, b"user", b"left", None, 0))
"""


async def test_nothing_is_left_in_a_keyring(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go("warm", monkeypatch)
    async with warm_server() as (_, client):
        for _ in range(2):
            way, done = await run(client, PYTHON, "-c", KEYS, sandbox=workspace_write(workspace))
            assert (way, done.streams["stdout"]) == ("warm", b"-1 -1\n")


async def test_processes_of_a_command_do_not_count_for_the_next(workspace: Path) -> None:
    """A control group counts them where the command is root's, and then each has a sandbox of its own."""
    wanted = workspace_write(workspace)
    wanted["permissions"]["limits"] = {"processes": 12}
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo started"
    async with warm_server() as (server, client):
        for _ in range(3):
            _, done = await run(client, *shell(script), sandbox=wanted)
            assert done.streams == {"stdout": b"started\n"}
            await made(pool_of(server))


async def test_a_terminal_is_always_that_of_one_command(workspace: Path) -> None:
    kind: Json = {"sandbox": workspace_write(workspace), "tty": True}
    async with warm_server() as (server, client):
        _, before = await run(client, *shell("stty -g"), **kind)
        await made(pool_of(server))
        await run(client, *shell("stty raw -echo"), **kind)
        way, after = await run(client, *shell("stty -g"), **kind)
    assert (way, after.streams) == ("cold", before.streams)


# --- what makes a spare useless ---------------------------------------------


def _exchange(workspace: Path) -> None:
    workspace.rename(workspace.with_name(f"{workspace.name}-old"))
    workspace.mkdir()


def _make_again(workspace: Path) -> None:
    shutil.rmtree(workspace)
    workspace.mkdir()


CHANGES: dict[str, Callable[[Path], object]] = {
    "the workspace is another directory": _exchange,
    "the workspace is removed and made again": _make_again,
    "the repository is removed": lambda workspace: shutil.rmtree(workspace / ".git"),
    "the repository is moved": lambda workspace: (workspace / ".git").rename(workspace / "git"),
    "a protected directory is made": lambda workspace: (workspace / ".codex").mkdir(),
    "a file appears that a pattern denies": lambda workspace: (workspace / "new.env").write_text("hunter2"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_change_of_what_a_spare_stands_on_makes_the_next_start_cold(
    change: Callable[[Path], object], workspace: Path
) -> None:
    wanted = workspace_write(workspace)
    pattern = {"type": "glob_pattern", "pattern": f"{workspace}/**/*.env"}
    wanted["permissions"]["file_system"]["entries"].append({"path": pattern, "access": "deny"})
    script = (
        f"cat {workspace}/*.env; mkdir -p {workspace}/.codex/x || mkdir {workspace}/.git/x && exit 9; true"
    )
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=wanted)
        await made(pool_of(server))
        assert len(pool_of(server))
        change(workspace)
        way, done = await run(client, *shell(script), sandbox=wanted)
    assert (way, done.exit_code) == ("cold", 0)
    assert "stdout" not in done.streams


async def test_a_working_directory_that_is_made_again_makes_the_next_start_cold(workspace: Path) -> None:
    there = workspace / "there"
    there.mkdir()
    kind: Json = {"sandbox": workspace_write(workspace), "cwd": str(there)}
    async with warm_server() as (server, client):
        await run(client, "/bin/true", **kind)
        await made(pool_of(server))
        there.rename(workspace / "before")
        there.mkdir()
        way, done = await run(client, *shell("echo x > new"), **kind)
    assert (way, done.exit_code, os.listdir(there), os.listdir(workspace / "before")) == (
        "cold",
        0,
        ["new"],
        [],
    )


async def test_a_new_limit_of_the_server_makes_the_next_start_cold(workspace: Path) -> None:
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        helper = server._spawner.helper_pid
        soft, hard = resource.prlimit(helper, resource.RLIMIT_CORE)
        resource.prlimit(helper, resource.RLIMIT_CORE, (0 if soft else 4096, hard))
        way, _ = await run(client, "/bin/true", sandbox=workspace_write(workspace))
    assert way == "cold"


async def test_a_spare_that_loses_a_mask_ends_and_its_tree_can_be_removed(workspace: Path) -> None:
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=workspace_write(workspace))
        await made(pool_of(server))
        spares = spares_of(server)
        shutil.rmtree(workspace)
        await ended(spares)
        assert (len(spares), len(pool_of(server))) == (2, 0)
        assert server._services.metrics.warm_ends["lost"] == 2


async def test_reading_everything_is_no_reason_for_a_directory_to_stay(workspace: Path) -> None:
    async with warm_server() as (server, client):
        await run(client, "/bin/true", sandbox=sandbox(entry(ROOT, "read")), cwd=str(workspace))
        await made(pool_of(server))
        shutil.rmtree(workspace)
        assert len(pool_of(server)) == 2


async def test_new_settings_of_a_running_server_end_its_spares(workspace: Path) -> None:
    """What is hidden may have changed."""
    kind: Json = {"sandbox": workspace_write(workspace), "cwd": str(workspace)}
    async with warm_server() as (server, client):
        await run(client, "/bin/true", **kind)
        await made(pool_of(server))
        spares = spares_of(server)
        assert spares
        await server.reload(server.settings)
        assert spares_of(server) == []
        await ended(spares)
        way, done = await run(client, *shell("echo again"), **kind)
    assert (way, done.streams) == ("cold", {"stdout": b"again\n"})
