"""Socket files: private, never stolen, always cleaned up; and who may connect."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.errors import ConnectError, ListenError
from paddock.transport import unix
from paddock.transport.delivery import MESSAGES_PER_TURN
from paddock.transport.limits import TransportLimits
from paddock.transport.lines import LineSplitter
from tests.processes import open_descriptors
from tests.turn_count import counted
from tests.unit.transport.recorder import PATIENCE_S, Acceptor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name a socket that does not exist yet."""
    return tmp_path / "paddock.sock"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask for a while."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def permissions(path: Path) -> int:
    """Give the permission bits of a socket file."""
    status = path.lstat()
    assert stat.S_ISSOCK(status.st_mode)
    return stat.S_IMODE(status.st_mode)


def inode(path: Path) -> int:
    """Tell one file from its replacement."""
    return path.lstat().st_ino


def remove(path: Path) -> None:
    """Remove a file behind its owner's back."""
    path.unlink()


def open_to_all(path: Path) -> None:
    """Open the door that the modes of a socket and its directory keep shut."""
    path.parent.chmod(0o755)
    path.chmod(0o666)


def names(directory: Path) -> list[str]:
    """List a directory."""
    return [entry.name for entry in directory.iterdir()]


def leave_stale_socket(path: Path) -> None:
    """Do what a server does that is killed."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
        dead.listen()


async def hung_up(sock: socket.socket) -> bool:
    """Tell whether the other side ends the connection."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await asyncio.get_running_loop().sock_recv(sock, 1) == b""
        except ConnectionResetError:
            return True


async def test_the_file_is_private_whatever_the_umask_says(path: Path) -> None:
    with umask(0):
        listener = await unix.listen(path, Acceptor())
    assert permissions(path) == 0o600
    assert listener.url == f"unix://{path}"
    assert names(path.parent) == [path.name]
    await listener.aclose()


async def test_the_file_goes_with_the_listener(path: Path) -> None:
    listener = await unix.listen(path, Acceptor())
    listener.close()
    assert names(path.parent) == []
    listener.close()
    await listener.aclose()


async def test_a_file_that_somebody_else_put_there_stays(path: Path) -> None:
    listener = await unix.listen(path, Acceptor())
    remove(path)
    leave_stale_socket(path)
    await listener.aclose()
    assert names(path.parent) == [path.name]


async def test_the_socket_of_a_dead_server_is_replaced(path: Path, acceptor: Acceptor) -> None:
    leave_stale_socket(path)
    servers = Acceptor()
    listener = await unix.listen(path, servers)
    link = await unix.connect(path, acceptor)
    link.send(b"hello")
    assert await (await servers.arrived()).received(1) == [b"hello"]
    assert permissions(path) == 0o600
    assert names(path.parent) == [path.name]
    await listener.aclose()


async def test_the_socket_of_a_live_server_is_left_alone(path: Path, acceptor: Acceptor) -> None:
    listener = await unix.listen(path, Acceptor())
    before = inode(path)
    with pytest.raises(ListenError, match="address in use: another server listens there"):
        await unix.listen(path, Acceptor())
    assert inode(path) == before
    assert names(path.parent) == [path.name]
    await unix.connect(path, acceptor)
    await listener.aclose()


async def test_a_server_too_busy_to_answer_counts_as_alive(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(os.fspath(path))
        busy.listen(0)
        waiting.connect(os.fspath(path))
        with pytest.raises(ListenError, match="address in use"):
            await unix.listen(path, Acceptor())


async def test_whoever_can_open_the_directory_cannot_keep_a_server_from_starting(path: Path) -> None:
    leave_stale_socket(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        listener = await unix.listen(path, Acceptor())
    finally:
        os.close(directory)
    await listener.aclose()


async def test_while_one_server_removes_a_dead_socket_no_other_can_remove_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_stale_socket(path)

    def look_while_a_rival_starts(socket_path: str) -> bool:
        monkeypatch.undo()
        seen = unix.is_alive(socket_path)
        with pytest.raises(ListenError, match="another server is just starting there"):
            unix._publish(str(path))
        return seen

    monkeypatch.setattr(unix, "is_alive", look_while_a_rival_starts)

    listener = await unix.listen(path, Acceptor())

    assert names(path.parent) == [path.name]
    await listener.aclose()
    assert names(path.parent) == []


def test_of_many_servers_that_start_at_once_on_a_dead_socket_one_has_it(path: Path) -> None:
    rivals = 6
    starting = threading.Barrier(rivals)

    def start(_: int) -> socket.socket | None:
        starting.wait(PATIENCE_S)
        try:
            return unix._publish(str(path))[0]
        except ListenError:
            return None

    with ThreadPoolExecutor(rivals) as pool:
        for _ in range(100):
            leave_stale_socket(path)
            winners = [sock for sock in pool.map(start, range(rivals)) if sock is not None]
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(os.fspath(path))
                assert len(winners) == 1
            winners[0].close()
            path.unlink()
            assert names(path.parent) == []


async def test_a_lock_that_a_killed_server_left_behind_is_no_obstacle(path: Path) -> None:
    leave_stale_socket(path)
    lock = path.with_name(f".{path.name}.lock")
    lock.touch(0o600)
    listener = await unix.listen(path, Acceptor())
    assert names(path.parent) == [path.name]
    await listener.aclose()


@pytest.fixture
def precious(path: Path) -> Path:
    """Put a file where the socket should go."""
    path.write_text("precious")
    return path


@pytest.fixture
def symbolic_link(path: Path) -> Path:
    """Put a symbolic link where the socket should go."""
    path.symlink_to(path.with_name("elsewhere"))
    return path


@pytest.mark.parametrize("obstacle", ["precious", "symbolic_link"])
async def test_what_is_no_socket_is_never_removed_or_followed(
    obstacle: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(obstacle)
    before = inode(path)
    with pytest.raises(ListenError, match="not a socket"):
        await unix.listen(path, Acceptor())
    assert inode(path) == before
    assert names(path.parent) == [path.name]


@pytest.mark.parametrize(
    ("name", "problem"), [("x" * 108, "longer than 107 bytes"), ("no/such/dir", "no such")]
)
async def test_an_impossible_path_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(ListenError, match=problem):
        await unix.listen(tmp_path / name, Acceptor())
    assert names(tmp_path) == []


async def test_a_relative_path_names_the_same_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acceptor: Acceptor
) -> None:
    monkeypatch.chdir(tmp_path)
    listener = await unix.listen("here.sock", Acceptor())
    assert listener.url == f"unix://{tmp_path}/here.sock"
    link = await unix.connect("here.sock", acceptor)
    assert link.peer == listener.url
    await listener.aclose()


async def test_connecting_where_nobody_listens_fails_with_the_reason(path: Path) -> None:
    with pytest.raises(ConnectError, match="no such file or directory") as caught:
        await unix.connect(path, Acceptor())
    assert caught.value.address == f"unix://{path}"
    leave_stale_socket(path)
    with pytest.raises(ConnectError, match="connection refused"):
        await unix.connect(path, Acceptor())


@contextmanager
def full_queue(path: Path) -> Iterator[socket.socket]:
    """Have a listener that nobody can connect to until it accepts a connection."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(os.fspath(path))
        listener.listen(0)
        first.connect(os.fspath(path))
        yield listener


async def test_a_server_that_accepts_nobody_is_given_up(path: Path, acceptor: Acceptor) -> None:
    with full_queue(path), pytest.raises(ConnectError, match=r"no answer within 0\.05 s"):
        await unix.connect(path, acceptor, timeout_s=0.05)
    assert acceptor.recorders == []


async def test_a_server_that_is_slow_to_accept_is_waited_for(path: Path, acceptor: Acceptor) -> None:
    with full_queue(path) as listener:
        connecting = asyncio.create_task(unix.connect(path, acceptor))
        await asyncio.sleep(0)
        listener.accept()[0].close()
        link = await connecting
        guest, _ = listener.accept()
        with guest:
            guest.sendall(b"hello\n")
            assert await (await acceptor.arrived()).received(1) == [b"hello"]
        link.abort()


async def test_no_more_than_the_allowed_connections_are_open(path: Path, acceptor: Acceptor) -> None:
    servers = Acceptor()
    listener = await unix.listen(path, servers, TransportLimits(max_connections=1))
    first = await unix.connect(path, acceptor)
    await servers.arrived(0)
    await unix.connect(path, acceptor)
    assert await (await acceptor.arrived(1)).ended() is None
    first.close()
    await servers.recorders[0].ended()
    third = await unix.connect(path, acceptor)
    third.send(b"welcome at last")
    assert await (await servers.arrived(1)).received(1) == [b"welcome at last"]
    await listener.aclose()


async def test_blank_lines_without_end_let_others_have_their_turns(path: Path, acceptor: Acceptor) -> None:
    listener = await unix.listen(path, acceptor)
    peers = []
    for number in range(4):
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        sock.connect(os.fspath(path))
        peers.append(sock)
        await acceptor.arrived(number)
    *flooders, other = peers
    flood = b"\n" * 60_000
    with counted(LineSplitter, "take") as count:
        for sock in flooders:
            assert sock.send(flood) == len(flood)
            assert sock.send(b"last\n") == 5
        other.send(b"hello\n")
        await acceptor.recorders[3].received(1)
        assert [recorder.messages for recorder in acceptor.recorders[:3]] == [[], [], []]
        for recorder in acceptor.recorders[:3]:
            assert await recorder.received(1) == [b"last"]
    assert count.on_loop > len(flooders) * len(flood) // MESSAGES_PER_TURN
    for sock in peers:
        sock.close()
    await listener.aclose()


async def test_all_links_of_a_socket_share_the_time_for_input(
    path: Path, acceptor: Acceptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No turn has time for more than one part.
    monkeypatch.setattr("paddock.transport.input_turns.TURN_S", 1e-9)
    listener = await unix.listen(path, acceptor)
    peers = []
    for number in range(10):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(os.fspath(path))
        peers.append(sock)
        await acceptor.arrived(number)
    messages = [b"%d" % number for number in range(1000)]
    with counted(LineSplitter, "take") as count:
        for sock in peers:
            sock.sendall(b"".join(message + b"\n" for message in messages))
        for recorder in acceptor.recorders:
            assert await recorder.received(len(messages)) == messages
    # The one whose turn it is, and the one that came when nobody waited.
    assert count.most <= 2
    for sock in peers:
        sock.close()
    await listener.aclose()


async def test_what_waits_for_its_turn_waits_for_the_end_of_a_pause_too(
    path: Path, acceptor: Acceptor
) -> None:
    listener = await unix.listen(path, acceptor)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.fspath(path))
    recorder = await acceptor.arrived()
    messages = [b"%d" % number for number in range(3 * MESSAGES_PER_TURN)]
    recorder.on_message = lambda _: recorder.link.pause_reading()
    sock.sendall(b"".join(message + b"\n" for message in messages))
    await recorder.received(1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert recorder.messages == messages[:1]
    recorder.on_message = None
    recorder.link.resume_reading()
    sock.sendall(b"after\n")
    assert await recorder.received(len(messages) + 1) == [*messages, b"after"]
    sock.close()
    await listener.aclose()


async def test_ending_a_listener_ends_its_links_even_those_just_arriving(
    path: Path, acceptor: Acceptor
) -> None:
    listener = await unix.listen(path, Acceptor())
    await unix.connect(path, acceptor)
    await listener.aclose()
    await (await acceptor.arrived()).ended()


async def test_the_peer_is_named_by_process_and_user(path: Path, acceptor: Acceptor) -> None:
    servers = Acceptor()
    listener = await unix.listen(path, servers)
    await unix.connect(path, acceptor)
    assert (await servers.arrived()).link.peer == f"unix pid {os.getpid()} uid {os.geteuid()}"
    await listener.aclose()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can pose as another user")
async def test_another_user_is_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    nobody = 65534
    servers = Acceptor()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "socket"
        listener = await unix.listen(path, servers)
        open_to_all(path)
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.setblocking(False)
            os.seteuid(nobody)
            try:
                stranger.connect(os.fspath(path))
            finally:
                os.seteuid(0)
            assert await hung_up(stranger)
        await listener.aclose()
    assert servers.recorders == []
    assert f'uid {nobody}" reason="only uid 0 may connect"' in caplog.text


def test_only_the_own_user_and_root_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [uid for uid in (0, 999, 1000, 1001) if unix.is_trusted(uid)] == [0, 1000]


def test_credentials_are_those_that_the_kernel_noted() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert unix.peer_credentials(ours) == (os.getpid(), os.geteuid())


async def test_a_place_where_other_servers_come_and_go_is_given_up(
    path: Path, acceptor: Acceptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*_: object) -> None:
        raise FileExistsError

    monkeypatch.setattr(os, "link", taken)
    # What was there is gone each time it is looked at.
    with pytest.raises(ListenError, match="address in use: other servers"):
        await unix.listen(path, acceptor)
    assert list(path.parent.iterdir()) == []


async def test_connecting_that_is_given_up_leaves_no_socket(
    path: Path, acceptor: Acceptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def give_up(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(unix, "_connect", give_up)
    before = open_descriptors()
    with pytest.raises(asyncio.CancelledError):
        await unix.connect(path, acceptor)
    assert open_descriptors() == before


async def test_a_connection_that_is_lost_while_it_is_made_frees_its_place(
    path: Path, acceptor: Acceptor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(sock: socket.socket, _: object) -> None:
        sock.close()
        raise OSError("Bad file descriptor")

    listener = await unix.listen(path, acceptor, TransportLimits(max_connections=1))
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as broken:
        broken.setattr(unix, "open_stream", fail)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.setblocking(False)
            assert await loop.sock_recv(client, 1) == b""
    assert "connection lost while" in caplog.text
    link = await unix.connect(path, acceptor)
    link.abort()
    await listener.aclose()
