"""A workspace on real servers: made once, attached to, confined, and carried as an archive."""

from __future__ import annotations

import asyncio
import io
import os
import posixpath
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from random import randrange
from tempfile import TemporaryFile

import pytest

import paddock
import paddock.sync
from paddock.agent.permission import Permissions, granted_profile
from paddock.client.connect import Connecting
from paddock.errors import InvalidProfile
from tests import tls
from tests.processes import peak_bytes
from tests.serving import serving
from tests.wire import served

TOKEN = "a-token-of-more-than-thirty-two-characters"


def unheard_of_seconds() -> str:
    """How long something sleeps that is to be found again: nobody else asks for that."""
    return f"{randrange(10**6, 10**9)}"


@pytest.fixture
async def workspace() -> AsyncIterator[paddock.Workspace]:
    async with paddock.Workspace() as workspace:
        yield workspace


async def test_nothing_is_made_before_the_first_use_and_one_directory_by_many_first_uses() -> None:
    async with served() as server, paddock.connect(server.url) as box:
        workspace = paddock.Workspace(box)
        assert workspace.reference is None

        done = await asyncio.gather(*(workspace.run(["pwd"]) for _ in range(8)))

        assert len({each.stdout for each in done}) == 1
        directory = done[0].stdout.decode().strip()
        assert os.stat(directory).st_mode & 0o777 == 0o700
        await workspace.destroy()
        assert await box.path(directory).exists() is False
        assert box.is_connected


async def test_an_opening_that_is_cancelled_is_made_good_by_the_next_use() -> None:
    workspace = paddock.Workspace()
    first = asyncio.create_task(workspace.open())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    async with workspace:
        assert (await workspace.run(["echo", "here"])).stdout == b"here\n"


async def test_commands_and_files_share_the_directory_and_are_confined(
    workspace: paddock.Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await workspace.write_bytes("deep/down/file", b"text")
    done = await workspace.run(["cat", "down/file"], cwd="deep")
    assert done.stdout == b"text"
    assert await workspace.read_bytes("deep/down/file") == b"text"

    outside = f"/etc/paddock-test-{os.getpid()}"
    refused = await workspace.run(["touch", outside])
    assert refused.returncode != 0
    assert [(each.kind, each.target) for each in refused.ending.denials] == [("write", outside)]
    with pytest.raises(OSError, match="can't write"):
        await workspace.write_bytes(outside, b"")
    assert not await (await workspace.path(outside)).exists()


async def test_too_much_output_ends_everything_that_the_command_has_started(
    workspace: paddock.Workspace,
) -> None:
    seconds = unheard_of_seconds()
    script = f"setsid sh -c 'echo $$ > pid; exec sleep {seconds}' & until [ -s pid ]; do :; done; yes"

    with pytest.raises(paddock.OutputTooLarge) as caught:
        await workspace.run(["sh", "-c", script], output_limit_bytes=10_000)

    assert caught.value.stdout == b"y\n" * 5_000
    assert str(caught.value).endswith("wrote more than 10000 bytes and was killed")
    assert await _everybody_left(seconds)


async def test_a_timeout_ends_everything_and_gives_the_output_so_far(workspace: paddock.Workspace) -> None:
    seconds = unheard_of_seconds()
    script = f"(setsid sleep {seconds} &) ; echo before; echo problem >&2; sleep {seconds}"

    with pytest.raises(paddock.RunTimeout) as caught:
        await workspace.run(["sh", "-c", script], timeout_s=1.0)

    assert (caught.value.stdout, caught.value.stderr) == (b"before\n", b"problem\n")
    assert await _everybody_left(seconds)


async def test_a_cancelled_run_ends_everything(workspace: paddock.Workspace) -> None:
    seconds = unheard_of_seconds()
    script = f"(setsid sleep {seconds} &) ; echo > up; sleep {seconds}"
    running = asyncio.create_task(workspace.run(["sh", "-c", script]))
    up = await workspace.path("up")
    async with asyncio.timeout(20):
        while True:
            if await up.exists():
                break
            await asyncio.sleep(0.05)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert await _everybody_left(seconds)


async def _everybody_left(seconds: str) -> bool:
    """Wait until nobody sleeps for so many seconds, whatever namespace it is in."""
    async with asyncio.timeout(20):
        while True:
            if not _sleepers(seconds):
                return True
            await asyncio.sleep(0.05)


def _sleepers(seconds: str) -> list[str]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", name, "cmdline").read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(name)
        except OSError:
            continue
    return found


async def test_another_process_attaches_by_the_reference() -> None:
    async with served() as server:
        async with paddock.Workspace(server.url) as workspace:
            await workspace.write_bytes("note", b"from here")
            reference = workspace.reference
            assert reference is not None
            script = (
                "import sys, paddock.sync; r = paddock.BoxReference.decode(sys.argv[1]);"
                "w = paddock.sync.Workspace.attach(r); print(w.read_bytes('note').decode());"
                "print(w.run(['touch', '/etc/no']).returncode); w.write_bytes('answer', b'from there');"
                "w.destroy(); w.close()"
            )
            other = await asyncio.create_subprocess_exec(
                sys.executable, "-c", script, reference.encode(), stdout=subprocess.PIPE
            )
            printed, _ = await other.communicate()

            assert printed.decode().split("\n")[0] == "from here"
            assert printed.decode().split("\n")[1] != "0"
            # Whoever attached does not remove what somebody else has made.
            assert await workspace.read_bytes("answer") == b"from there"
        gone = paddock.Workspace.attach(reference)
        with pytest.raises(paddock.NotFound, match="does not exist"):
            await gone.open()
        await gone.aclose()


async def test_a_workspace_lies_behind_tls_and_a_token_and_its_reference_holds_no_secret(
    tmp_path: Path,
) -> None:
    token, key = tmp_path / "token", tmp_path / "key.pem"
    for path, content in ((token, f"{TOKEN}\n"), (key, tls.KEY.read_text())):
        path.touch(mode=0o600)
        path.write_text(content)
    auth = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving(*auth, "--tls-cert", str(tls.CERT), "--tls-key", str(key)) as server:

        def connecting() -> Connecting:
            return paddock.connect(server.url, token=TOKEN, tls_ca=tls.AUTHORITY)

        async with paddock.Workspace(connecting()) as workspace:
            await workspace.write_bytes("note", b"kept")
            assert (await workspace.run(["touch", "/etc/no"])).returncode != 0
            reference = workspace.reference
            assert reference is not None
            assert reference.url == server.url
            assert TOKEN not in reference.encode()

            with pytest.raises(paddock.ConnectError):
                await paddock.Workspace.attach(reference).open()
            other = paddock.Workspace.attach(reference, connecting())
            assert await other.read_bytes("note") == b"kept"
            await other.aclose()


async def test_a_detached_session_is_resumed_by_the_reference_of_its_box() -> None:
    async with served() as server:
        box = await paddock.connect(server.url)
        process = await box.start(["sh", "-c", "read line; echo got $line"], stdin=True)
        reference = paddock.BoxReference.decode(box.reference.encode())
        await box.detach()

        async with paddock.connect(reference.url, resume=reference.session_id) as again:
            handle = await again.attach(process.process_id)
            await handle.write(b"word\n")
            assert (await handle.communicate())[0] == b"got word\n"


async def test_a_reference_from_another_host_and_one_that_is_none_are_refused(
    workspace: paddock.Workspace,
) -> None:
    reference = workspace.reference
    assert reference is not None
    foreign = paddock.BoxReference(
        url=None, provider_id="elsewhere", directory=reference.directory, profile=":workspace"
    )
    stranger = paddock.Workspace.attach(foreign)
    with pytest.raises(paddock.NotFound, match="another host"):
        await stranger.open()
    await stranger.aclose()
    for text in ("", "[]", '{"url": null, "provider_id": "x", "grants": "all"}', "x" * 100_000):
        with pytest.raises(ValueError, match="reference"):
            paddock.BoxReference.decode(text)
    with pytest.raises(ValueError, match="no workspace"):
        paddock.Workspace.attach(paddock.BoxReference(url=None, provider_id="x"))
    async with paddock.connect() as box:
        with pytest.raises(ValueError, match="ends with its client"):
            _ = box.reference


async def test_a_tree_leaves_and_comes_back_without_names_that_the_sandbox_holds(
    workspace: paddock.Workspace,
) -> None:
    await workspace.run(
        ["sh", "-c", "mkdir -p a/b; echo 1 > a/b/c; ln -s c a/b/link; chmod +x a/b/c; echo > .env"]
    )
    await workspace.write_bytes("skipped/file", b"")
    archive = io.BytesIO()

    await workspace.export_tree(archive, leaves_out=lambda path: path == "skipped")

    archive.seek(0)
    with tarfile.open(fileobj=archive) as found:
        assert sorted(found.getnames()) == [".", ".env", "a", "a/b", "a/b/c", "a/b/link"]
    assert [each.file_name for each in await workspace.entries()] == [".env", "a", "skipped"]
    async with paddock.Workspace() as other:
        await other.write_bytes("a/old", b"")
        await other.write_bytes("kept", b"")
        archive.seek(0)
        await other.import_tree(archive)
        listed = await other.run(["sh", "-c", "ls a; ./a/b/link; test -x a/b/c && cat a/b/link"])
        assert listed.stdout == b"b\n1\n"
        assert [each.file_name for each in await other.entries()] == [".env", "a", "kept"]


async def test_a_large_tree_leaves_and_comes_back_in_little_memory() -> None:
    size_bytes = 64 << 20
    with serving() as server, TemporaryFile() as archive:
        async with paddock.Workspace(server.url) as workspace, paddock.Workspace(server.url) as other:
            await workspace.run(["truncate", f"--size={size_bytes}", "file"])
            await other.open()
            before = peak_bytes(server.pid)
            tracemalloc.start()
            try:
                await workspace.export_tree(archive)
                archive.seek(0)
                await other.import_tree(archive)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert (await (await other.path("file")).stat()).size == size_bytes
            growth = peak_bytes(server.pid) - before
    # Half of the tree is more than the spool, which moves to a file at 8 MiB, and the blocks on their way.
    assert peak < size_bytes // 2
    assert growth < size_bytes // 2


@pytest.mark.parametrize("path", ["", ".", "sub/.."])
async def test_a_walk_leaves_out_names_that_the_sandbox_holds_however_the_directory_is_written(
    workspace: paddock.Workspace, path: str
) -> None:
    await workspace.write_bytes("sub/file", b"")
    await workspace.write_bytes(".hidden", b"")
    running = await workspace.start(["sh", "-c", "ls -A; exec sleep 600"])
    async for output in running:
        # Only while a command runs are names held.
        assert b".git\n" in output.data
        break
    tree = await workspace.walk(path)
    running.kill_now()
    root = (await workspace.open()).directory
    assert [posixpath.relpath(each, root) for each in tree.directories] == ["sub"]
    assert sorted(posixpath.relpath(each, root) for each in tree.files) == [".hidden", "sub/file"]


async def test_an_archive_that_leads_out_changes_nothing(workspace: paddock.Workspace) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        made.addfile(tarfile.TarInfo("../out"))
    archive.seek(0)

    with pytest.raises(paddock.PaddockError):
        await workspace.import_tree(archive)
    assert await workspace.entries() == []


def archive_of(*members: tuple[str, str | None]) -> io.BytesIO:
    """An archive of files with their names as content, or of links that lead somewhere."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        for name, leads_to in members:
            member = tarfile.TarInfo(name)
            if leads_to is None:
                member.size = len(os.fsencode(name))
            else:
                member.type, member.linkname = tarfile.SYMTYPE, leads_to
            made.addfile(member, io.BytesIO(os.fsencode(name)))
    archive.seek(0)
    return archive


async def test_names_that_are_not_utf_8_leave_and_come_back(workspace: paddock.Workspace) -> None:
    names = ["\udce9", "\ufffd", "plain"]
    await workspace.import_tree(archive_of(*((name, None) for name in names), ("\ufffd link", "nowhere")))
    archive = io.BytesIO()
    await workspace.export_tree(archive)
    archive.seek(0)
    async with paddock.Workspace() as other:
        await other.import_tree(archive)
        for each in (workspace, other):
            assert [await each.read_bytes(name) for name in names] == list(map(os.fsencode, names))
            assert len(await each.entries()) == len(names) + 1


async def test_an_archive_with_a_link_that_can_not_be_named_changes_nothing(
    workspace: paddock.Workspace,
) -> None:
    await workspace.write_bytes("plain", b"old")
    with pytest.raises(paddock.InvalidRequest, match="is not UTF-8"):
        await workspace.import_tree(archive_of(("plain", None), ("\udce9", "plain")))
    assert await workspace.read_bytes("plain") == b"old"
    assert [each.file_name for each in await workspace.entries()] == ["plain"]


async def test_grants_of_a_framework_become_a_profile(tmp_path: Path) -> None:
    granted, other = tmp_path / "granted", Path("/etc")
    granted.mkdir()
    profile = granted_profile(":read-only", Permissions(write=(str(granted),)))
    async with paddock.Workspace(profile=profile) as workspace:
        assert (await workspace.run(["touch", str(granted / "new")])).returncode == 0
        assert (await workspace.run(["touch", str(other / "new")])).returncode != 0

    assert granted_profile(":workspace", Permissions()) == ":workspace"
    hosts = granted_profile(":workspace", Permissions(hosts=("example.org:443",)))
    assert isinstance(hosts, dict)
    assert hosts["network"]["allow"] == ["example.org:443"]
    for base in ("a-name-of-the-server", ":danger-full-access"):
        with pytest.raises(InvalidProfile, match="nothing can be added"):
            granted_profile(base, Permissions(write=("/srv",)))


def test_programs_that_block_have_the_same_workspace() -> None:
    workspace = paddock.sync.Workspace()
    assert workspace.inner.opened is None
    with workspace:
        workspace.write_bytes("file", b"text")
        assert workspace.run(["cat", "file"]).stdout == b"text"
        assert workspace.reference is not None
        directory = workspace.reference.directory
    assert directory is not None
    assert not Path(directory).exists()
    workspace.close()


def test_a_blocking_workspace_uses_the_box_that_it_is_given() -> None:
    with paddock.sync.connect() as box:
        with paddock.sync.Workspace(box) as workspace:
            assert workspace.run(["true"]).returncode == 0
        assert box.run(["true"]).returncode == 0
