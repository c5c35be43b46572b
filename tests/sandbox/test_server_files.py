"""File operations under a profile, over the wire, with the real kernel."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.fs import namespace_entry
from paddock.sandbox.host import probe
from paddock.server import file_workers
from tests.sandbox.profiles import PROJECT_ROOTS, READ_ONLY, ROOT, entry, sandbox, workspace_write
from tests.wire import WireClient, WireError, attach, encode, served, session

Json = dict[str, Any]


@pytest.fixture(name="workspace")
def workspace_of_the_test(ground: Path) -> Path:
    """Outside /tmp, with a file and a directory that profiles deny."""
    workspace = ground / f"files-{os.urandom(4).hex()}"
    (workspace / "secret").mkdir(parents=True)
    (workspace / "secret" / "key").write_text("hunter2")
    (workspace / "file").write_text("hello")
    return workspace


async def refusal_of(client: WireClient, method: str, path: Path | str, **params: Any) -> int:
    with pytest.raises(WireError) as refusal:
        await client.call(method, {"path": str(path), **params})
    return refusal.value.code


def workers() -> set[int]:
    """The processes below this one that carry operations out inside a sandbox."""
    found = set()
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(OSError):
            is_worker = b"paddock.fs.fork_server" in Path(f"/proc/{pid}/cmdline").read_bytes()
            if is_worker and _namespaces_above(pid) and os.getpid() in _ancestors(pid):
                found.add(pid)
    return found


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def _namespaces_above(pid: int) -> int:
    """How many pid namespaces there are in which a process has another number."""
    return len(fields(Path(f"/proc/{pid}/status").read_text())["NSpid"].split()) - 1


def fields(status: str) -> dict[str, str]:
    """What proc(5) tells of a process."""
    return dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


# --- what a profile grants --------------------------------------------------


async def test_operations_get_what_the_profile_grants_and_the_codes_of_the_reference(workspace: Path) -> None:
    hello = {"dataBase64": encode(b"hello")}
    inside = workspace_write(workspace)
    denied = sandbox(entry(ROOT, "read"), entry(workspace / "secret", "deny"))
    key = workspace / "secret" / "key"
    async with session() as client:
        for profile in (READ_ONLY, inside, denied):
            assert (
                await client.call("fs/readFile", {"path": str(workspace / "file"), "sandbox": profile})
                == hello
            )
            assert await refusal_of(client, "fs/readFile", workspace / "none", sandbox=profile) == -32004
        write = {"dataBase64": "", "sandbox": READ_ONLY}
        assert await refusal_of(client, "fs/writeFile", workspace / "new", **write) == -32603
        assert await refusal_of(client, "fs/remove", workspace / "file", sandbox=READ_ONLY) == -32603
        assert (
            await refusal_of(client, "fs/chmod", workspace / "file", mode=0o700, sandbox=READ_ONLY) == -32603
        )
        moved = {"sourcePath": str(workspace / "file"), "destinationPath": str(workspace.parent / "outside")}
        with pytest.raises(WireError) as refusal:
            await client.call("fs/move", {**moved, "sandbox": inside})
        # Across the edge of the profile is across mounts.
        assert refusal.value.code == -32603
        there = {**moved, "destinationPath": str(workspace / "moved")}
        back = {"sourcePath": there["destinationPath"], "destinationPath": there["sourcePath"]}
        for move in (there, back):
            assert await client.call("fs/move", {**move, "sandbox": inside}) == {}
        mode = {"path": str(workspace / "file"), "mode": 0o600, "sandbox": inside}
        assert await client.call("fs/chmod", mode) == {}
        assert await refusal_of(client, "fs/readFile", key, sandbox=denied) == -32600
        assert await refusal_of(client, "fs/getMetadata", key, sandbox=denied) == -32600
        for atomic in (False, True):
            where = {"path": str(workspace / f"new-{atomic}"), "dataBase64": encode(b"x"), "atomic": atomic}
            assert await client.call("fs/writeFile", {**where, "sandbox": inside}) == {}
        assert (
            await refusal_of(
                client, "fs/writeFile", workspace.parent / "outside", **write | {"sandbox": inside}
            )
            == -32603
        )
        assert (
            await refusal_of(client, "fs/createDirectory", workspace / ".git" / "hooks", sandbox=inside)
            == -32603
        )
    assert [name for name in names(workspace) if name.startswith("new")] == ["new-False", "new-True"]


async def test_edits_of_one_file_at_one_time_are_all_made_in_sandboxes_and_outside(workspace: Path) -> None:
    file = workspace / "file"
    async with session() as client:
        for _ in range(5):
            file.write_text("".join(f"line {number}\n" for number in range(8)))
            requests = []
            for number in range(8):
                edits = [{"old": f"line {number}\n", "new": f"done {number}\n"}]
                params: Json = {"path": str(file), "edits": edits}
                if number % 2:
                    params["sandbox"] = workspace_write(workspace)
                requests.append(client.request("fs/edit", params))
            for request in requests:
                await client.answer(request)
            assert file.read_text() == "".join(f"done {number}\n" for number in range(8))


async def test_operations_work_under_a_profile_that_grants_the_network(workspace: Path) -> None:
    open_network = workspace_write(workspace)
    open_network["permissions"]["network"] = "enabled"
    async with session() as client:
        read = {"path": str(workspace / "file"), "sandbox": open_network}
        assert await client.call("fs/readFile", read) == {"dataBase64": encode(b"hello")}
        write = {"dataBase64": "", "sandbox": open_network}
        outside = workspace.parent / "outside"
        assert await refusal_of(client, "fs/writeFile", outside, **write) == -32603
    assert not outside.exists()


@pytest.mark.parametrize("is_confined", [False, True])
@pytest.mark.parametrize("atomic", [False, True])
async def test_what_a_client_writes_to_a_set_user_id_file_does_not_act_for_its_owner(
    workspace: Path, atomic: bool, is_confined: bool
) -> None:
    file = workspace / "file"
    file.chmod(0o6755)
    write: Json = {"path": str(file), "dataBase64": encode(b"x"), "atomic": atomic}
    if is_confined:
        write["sandbox"] = workspace_write(workspace)
    async with session() as client:
        assert await client.call("fs/writeFile", write) == {}
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("x", 0o755)


async def test_a_profile_that_restricts_reads_hides_even_the_worker_itself(workspace: Path) -> None:
    only = sandbox(entry(workspace, "read"))
    async with session() as client:
        found = await client.call("fs/readFile", {"path": str(workspace / "file"), "sandbox": only})
        assert found == {"dataBase64": encode(b"hello")}
        for hidden in ("/etc/passwd", os.__file__, "/proc/self/cwd/etc/passwd"):
            assert await refusal_of(client, "fs/readFile", hidden, sandbox=only) == -32004
        # Were this possible, whoever wants it could make the worker do anything.
        assert (
            await refusal_of(client, "fs/writeFile", "/proc/self/mem", dataBase64="", sandbox=only) == -32603
        )
        status = await client.call("fs/readFile", {"path": "/proc/self/status", "sandbox": only})
    told = base64.b64decode(status["dataBase64"]).decode().split()
    assert [told[told.index(f"Cap{name}:") + 1] for name in ("Prm", "Eff", "Bnd")] == ["0" * 16] * 3
    assert told[told.index("NoNewPrivs:") + 1] == "1"


@pytest.mark.parametrize("change", ["replaced", "made", "moved"])
async def test_what_changes_outside_does_not_undo_a_denial(workspace: Path, change: str) -> None:
    name = workspace / ("new" if change == "made" else "file")
    denied = sandbox(entry(ROOT, "read"), entry(name, "deny"))
    read = {"path": str(name), "sandbox": denied}
    async with session() as client:
        await client.call("fs/getMetadata", {"path": str(workspace), "sandbox": denied})
        match change:
            case "replaced":
                (workspace / "other").write_text("new")
                (workspace / "other").rename(name)
            case "made":
                name.write_text("new")
            case "moved":
                name.rename(workspace / "aside")
                (workspace / "aside").rename(name)
        with pytest.raises(WireError) as refusal:
            await client.call("fs/readFile", read)
        assert refusal.value.code == -32600
        assert (await client.call("fs/readFile", {"path": str(name)}))["dataBase64"]


async def test_a_denied_pattern_never_stalls_the_server_and_one_without_a_meaning_is_refused(
    workspace: Path,
) -> None:
    name = "a" * 200
    (workspace / name).touch()
    (workspace / f"{name}b").write_text("secret")

    def denying(pattern: str) -> Json:
        denied = entry({"type": "glob_pattern", "pattern": f"{workspace}/{pattern}"}, "deny")
        return sandbox(entry(ROOT, "read"), denied)

    stars = denying("**/" + "*a" * 12 + "b")
    async with session() as client:
        assert await client.call("fs/readFile", {"path": str(workspace / name), "sandbox": stars}) == {
            "dataBase64": ""
        }
        assert await refusal_of(client, "fs/readFile", workspace / f"{name}b", sandbox=stars) == -32600
        assert await refusal_of(client, "fs/readFile", workspace, sandbox=denying("**/[z-a]")) == -32602


async def test_a_file_that_comes_to_match_a_denied_pattern_is_denied_from_then_on(workspace: Path) -> None:
    pattern = {"type": "glob_pattern", "pattern": f"{workspace}/**/*.env"}
    denied = sandbox(entry(ROOT, "read"), entry(pattern, "deny"))
    async with session() as client:
        await client.call("fs/readFile", {"path": str(workspace / "file"), "sandbox": denied})
        (workspace / "late.env").write_text("secret")
        assert await refusal_of(client, "fs/readFile", workspace / "late.env", sandbox=denied) == -32600


async def test_a_profile_without_a_place_for_its_roots_is_refused(workspace: Path) -> None:
    incomplete = workspace_write(workspace)
    del incomplete["cwd"]
    async with session() as client:
        assert await refusal_of(client, "fs/readFile", workspace / "file", sandbox=incomplete) == -32602


async def test_a_host_without_sandboxes_does_no_operation_that_asks_for_one(
    monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    monkeypatch.setattr(probe, "enforcement", lambda _: None)
    async with session() as client:
        assert await refusal_of(client, "fs/readFile", workspace / "file", sandbox=READ_ONLY) == -32602
        await client.call("fs/readFile", {"path": str(workspace / "file")})


# --- open files -------------------------------------------------------------


async def test_an_open_file_stays_with_the_worker_that_has_it(workspace: Path) -> None:
    inside = sandbox(entry(ROOT, "read"), entry(workspace, "write"), entry(workspace / "secret", "deny"))
    async with session() as client:
        name = {"handleId": "w", "path": str(workspace / "out"), "mode": "replace", "sandbox": inside}
        await client.call("fs/open", name)
        await client.call("fs/writeBlock", {"handleId": "w", "offset": 0, "chunk": encode(b"data")})
        # Files change meanwhile, and the next request needs another sandbox.
        (workspace / "secret").rename(workspace / "aside")
        (workspace / "secret").mkdir()
        await client.call("fs/readFile", {"path": str(workspace / "file"), "sandbox": inside})
        await client.call("fs/writeBlock", {"handleId": "w", "offset": 4, "chunk": encode(b" and more")})
        await client.call("fs/close", {"handleId": "w"})
    assert (workspace / "out").read_text() == "data and more"


async def test_what_is_unpublished_when_its_connection_ends_is_discarded(workspace: Path) -> None:
    inside = workspace_write(workspace)
    async with served() as server:
        client = attach(server)
        await client.initialize(capabilities={"extensions": True})
        wanted = {"handleId": "w", "path": str(workspace / "out"), "mode": "replace", "atomic": True}
        await client.call("fs/open", {**wanted, "sandbox": inside})
        client.link.abort()
        await server.quiet()
    assert [name for name in names(workspace) if not name.startswith(".")] == ["file", "secret"]


# --- the workers ------------------------------------------------------------


async def test_one_worker_serves_all_requests_under_a_profile_and_ends_with_the_server(
    workspace: Path,
) -> None:
    before = workers()
    async with session() as client:
        read = {"path": str(workspace / "file"), "sandbox": READ_ONLY}
        requests = [client.request("fs/readFile", read) for _ in range(50)]
        for request in requests:
            await client.answer(request)
        [worker] = workers() - before
        # Other profiles that grant the same reads share it.
        await client.call("fs/getMetadata", {**read, "sandbox": READ_ONLY | {"cwd": "/"}})
        assert workers() - before == {worker}
    assert workers() == before


async def test_what_is_denied_stays_denied_when_it_is_removed_and_made_anew(workspace: Path) -> None:
    key, settings = workspace / "secret" / "key", workspace / ".env"
    denied = sandbox(entry(ROOT, "read"), entry(workspace / "secret", "deny"), entry(settings, "deny"))
    settings.write_text("TOKEN=1")
    async with session() as client:
        for _ in range(3):
            for path in (key, settings):
                assert await refusal_of(client, "fs/readFile", path, sandbox=denied) == -32600
            # On ext4 what is made now gets the inode numbers of what has just been removed.
            shutil.rmtree(key.parent)
            settings.unlink()
            key.parent.mkdir()
            key.write_text("hunter2")
            settings.write_text("TOKEN=1")


async def test_nothing_is_made_at_a_protected_path_whose_place_was_moved(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the worker is still there when the place has been moved.
    monkeypatch.setattr(file_workers, "IDLE_WITH_PLACEHOLDERS_S", 60.0)
    profile = sandbox(
        entry(ROOT, "read"),
        entry(PROJECT_ROOTS, "write"),
        cwd=workspace.as_uri(),
        workspaceRoots=[workspace.as_uri()],
    )
    trap = {"path": str(workspace / ".git" / "hooks"), "recursive": True}
    async with session() as client:
        with pytest.raises(WireError):
            await client.call("fs/createDirectory", {**trap, "sandbox": profile})
        (workspace / ".git").rename(workspace / "moved")
        with pytest.raises(WireError):
            await client.call("fs/createDirectory", {**trap, "sandbox": profile})
        assert not (workspace / ".git" / "hooks").exists()
    assert not (workspace / ".git").exists()
    # Without the profile it works.
    async with session() as client:
        await client.call("fs/createDirectory", trap)
    assert (workspace / ".git" / "hooks").is_dir()


async def test_a_workspace_that_was_removed_and_made_anew_is_written_to(workspace: Path) -> None:
    project = workspace / "project"
    async with session() as client:
        for text in (b"one", b"two", b"three"):
            project.mkdir()
            write = {
                "dataBase64": encode(text),
                "sandbox": sandbox(entry(ROOT, "read"), entry(project, "write")),
            }
            await client.call("fs/writeFile", {"path": str(project / "file"), **write})
            assert (project / "file").read_bytes() == text
            shutil.rmtree(project)


async def test_a_worker_is_confined_as_commands_are(workspace: Path) -> None:
    async with session() as client:
        read = {"path": "/proc/self/status", "sandbox": READ_ONLY}
        worker = fields(base64.b64decode((await client.call("fs/readFile", read))["dataBase64"]).decode())
        await client.start("p", "cat", "/proc/self/status", sandbox=READ_ONLY)
        command = fields((await client.finish("p")).streams["stdout"].decode())
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Uid", "Gid"):
        assert worker[name] == command[name], name
    assert worker.get("Seccomp_filters") == command.get("Seccomp_filters")
    # Of /proc/pid/status, see proc(5): 2 is a filter.
    assert (worker["Seccomp"], worker["NoNewPrivs"], int(worker["CapBnd"], 16)) == ("2", "1", 0)


@pytest.mark.parametrize("content", [None, b"", b"no library"], ids=["missing", "empty", "damaged"])
async def test_without_its_library_no_worker_serves_and_the_error_says_what_to_do(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    library = tmp_path / "paddock-worker.so"
    if content is not None:
        library.write_bytes(content)
    monkeypatch.setattr(namespace_entry, "LIBRARY", library)
    read = {"path": str(workspace / "file")}
    async with session() as client:
        for _ in range(2):
            with pytest.raises(WireError, match="make native"):
                await client.call("fs/readFile", {**read, "sandbox": READ_ONLY})
        assert (await client.call("fs/readFile", read))["dataBase64"]


async def test_a_fifo_can_t_be_written_to_where_files_can_t(workspace: Path) -> None:
    fifo = workspace / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with session() as client:
            write = {"dataBase64": encode(b"a word to somebody outside"), "sandbox": READ_ONLY}
            assert await refusal_of(client, "fs/writeFile", fifo, **write) == -32603
            assert os.read(reader, 100) == b""
    finally:
        os.close(reader)


async def test_a_worker_that_was_killed_is_replaced(workspace: Path) -> None:
    before = workers()
    read = {"path": str(workspace / "file"), "sandbox": READ_ONLY}
    async with session() as client:
        for _ in range(3):
            await client.call("fs/readFile", read)
            [worker] = workers() - before
            descriptor = os.pidfd_open(worker)
            os.kill(worker, signal.SIGKILL)
            gone = asyncio.Event()
            asyncio.get_running_loop().add_reader(descriptor, gone.set)
            await gone.wait()
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
            # The server may not have noticed yet; then this request is lost with the worker.
            with contextlib.suppress(WireError):
                await client.call("fs/readFile", read)


async def test_no_more_workers_are_kept_than_there_may_be(
    monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    monkeypatch.setattr(file_workers, "MAX_WORKERS", 2)
    before = workers()
    async with session() as client:
        for number in range(5):
            place = workspace / str(number)
            place.mkdir()
            (place / "file").write_text(str(number))
            own = sandbox(entry(place, "read"))
            found = await client.call("fs/readFile", {"path": str(place / "file"), "sandbox": own})
            assert found == {"dataBase64": encode(str(number).encode())}
            assert len(workers() - before) <= 2


async def test_when_all_workers_have_files_open_the_next_profile_is_refused_after_a_while(
    monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    monkeypatch.setattr(file_workers, "MAX_WORKERS", 1)
    monkeypatch.setattr(file_workers, "BUSY_TIMEOUT_S", 0.05)
    other = sandbox(entry(workspace, "read"))
    async with session() as client:
        await client.call("fs/open", {"handleId": "h", "path": str(workspace / "file"), "sandbox": READ_ONLY})
        assert await refusal_of(client, "fs/readFile", workspace / "file", sandbox=other) == -32603
        await client.call("fs/close", {"handleId": "h"})
        await client.call("fs/readFile", {"path": str(workspace / "file"), "sandbox": other})


async def test_a_client_with_files_open_under_many_profiles_leaves_workers_to_others(
    monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    monkeypatch.setattr(file_workers, "MAX_WORKERS", 4)
    monkeypatch.setattr(file_workers, "CLIENT_SHARE", 2)
    monkeypatch.setattr(file_workers, "BUSY_TIMEOUT_S", 0.05)
    file = str(workspace / "file")
    profiles = [sandbox(entry(workspace, "read"), entry(workspace / str(n), "read")) for n in range(5)]
    async with served() as server:
        greedy, other = attach(server), attach(server)
        for client in (greedy, other):
            await client.initialize(capabilities={"extensions": True})
        for number, profile in enumerate(profiles[:2]):
            await greedy.call("fs/open", {"handleId": f"h{number}", "path": file, "sandbox": profile})
        for profile in profiles[2:]:
            assert await refusal_of(greedy, "fs/readFile", file, sandbox=profile) == -32603
            # Nor does a request that waits for its client's share keep others from the same profile.
            monkeypatch.setattr(file_workers, "BUSY_TIMEOUT_S", 5.0)
            waiting = greedy.request("fs/readFile", {"path": file, "sandbox": profile})
            assert await other.call("fs/readFile", {"path": file, "sandbox": profile})
            assert not greedy.unread
            await greedy.call("fs/close", {"handleId": "h0"})
            assert await greedy.answer(waiting)
            await greedy.call("fs/open", {"handleId": "h0", "path": file, "sandbox": profiles[0]})
            monkeypatch.setattr(file_workers, "BUSY_TIMEOUT_S", 0.05)
        # What it has open it may go on to use.
        assert await greedy.call("fs/readFile", {"path": file, "sandbox": profiles[1]})


async def test_places_that_writes_need_are_gone_soon_after_them(
    monkeypatch: pytest.MonkeyPatch, workspace: Path
) -> None:
    monkeypatch.setattr(file_workers, "IDLE_WITH_PLACEHOLDERS_S", 0.0)
    inside = workspace_write(workspace)
    async with session() as client:
        write = {"path": str(workspace / "new"), "dataBase64": "", "sandbox": inside}
        await client.call("fs/writeFile", write)
    assert names(workspace) == ["file", "new", "secret"]
