"""Sockets, queues, shared memory and keys by which processes of the host talk to each other."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from tests.attack.attempt import Attempt, Scene, each_attempt, is_heard, is_held, is_leaked, is_said
from tests.attack.conftest import Arena
from tests.attack.ground import Cell

STREAM, DATAGRAM, RAW, PACKETS = 1, 2, 3, 5
NETLINK, PACKET, ALGORITHM, VSOCK, XDP = 16, 17, 38, 40, 44


def _named(kind: socket.SocketKind) -> Callable[[Cell], Sequence[socket.socket]]:
    """A socket of the host in the project itself, where the command may write."""

    def listen(cell: Cell) -> Sequence[socket.socket]:
        ear = socket.socket(socket.AF_UNIX, kind)
        ear.bind(str(cell.inside / "ear"))
        (cell.inside / "ear").chmod(0o777)
        return [_open(ear)]

    return listen


def _abstract(kind: socket.SocketKind) -> Callable[[Cell], Sequence[socket.socket]]:
    def listen(cell: Cell) -> Sequence[socket.socket]:
        ear = socket.socket(socket.AF_UNIX, kind)
        ear.bind(f"\0{cell.process_name}")
        return [_open(ear)]

    return listen


def _inet(family: socket.AddressFamily, kind: socket.SocketKind) -> Callable[[Cell], Sequence[socket.socket]]:
    def listen(cell: Cell) -> Sequence[socket.socket]:
        ear = socket.socket(family, kind)
        ear.bind(("::1" if family is socket.AF_INET6 else "127.0.0.1", 0))
        (cell.inside / "port").write_text(str(ear.getsockname()[1]))
        return [_open(ear)]

    return listen


def _open(ear: socket.socket) -> socket.socket:
    if ear.type is not socket.SOCK_DGRAM:
        ear.listen()
    return ear


def _spoken(family: str, address: str, *, is_stream: bool = True) -> str:
    """A script for Python that sends something to the port in a file."""
    kind = "SOCK_STREAM" if is_stream else "SOCK_DGRAM"
    return (
        f"$PYTHON -c \"import socket; p = int(open('port').read());"
        f" s = socket.socket(socket.{family}, socket.{kind}); s.connect(('{address}', p)); s.send(b'x')\""
    )


def _is_bound(scene: Scene) -> bool:
    return (scene.cell.inside / "bound").is_socket()


def _is_shared(scene: Scene) -> bool:
    return f"{scene.cell.process_name}\n" in scene.aftermath()


UNIX = [
    Attempt(
        "a stream to a socket of the host that lies in the project",
        f"$PROBE connect ear {STREAM}",
        is_heard,
        listen=_named(socket.SOCK_STREAM),
    ),
    Attempt(
        "packets to a socket of the host that has an abstract name",
        f"$PROBE connect @$NAME {PACKETS}",
        is_heard,
        listen=_abstract(socket.SOCK_SEQPACKET),
    ),
    Attempt(
        "a datagram to a socket of the host", "$PROBE sendto ear", is_heard, listen=_named(socket.SOCK_DGRAM)
    ),
    Attempt(
        "a datagram by another name of its kind",
        "$PROBE sendmsg @$NAME",
        is_heard,
        listen=_abstract(socket.SOCK_DGRAM),
    ),
    Attempt(
        "several datagrams at once from one of a pair",
        "$PROBE sendmmsg ear",
        is_heard,
        listen=_named(socket.SOCK_DGRAM),
    ),
    Attempt(
        "a descriptor of a directory, for somebody outside to use",
        "$PROBE pass ear",
        is_heard,
        listen=_named(socket.SOCK_DGRAM),
    ),
    Attempt(
        "a socket that programs of the host would connect to",
        "$PYTHON -c \"import socket; socket.socket(socket.AF_UNIX).bind('bound')\"",
        _is_bound,
    ),
    Attempt(
        "a service on the loopback of the host",
        _spoken("AF_INET", "127.0.0.1"),
        is_heard,
        listen=_inet(socket.AF_INET, socket.SOCK_STREAM),
    ),
    Attempt(
        "a datagram to the loopback of the host",
        _spoken("AF_INET", "127.0.0.1", is_stream=False),
        is_heard,
        listen=_inet(socket.AF_INET, socket.SOCK_DGRAM),
    ),
    Attempt(
        "a service that listens on the newer protocol",
        _spoken("AF_INET6", "::1"),
        is_heard,
        listen=_inet(socket.AF_INET6, socket.SOCK_STREAM),
        needs="IPv6",
    ),
    Attempt(
        "data with the opening of a connection",
        "$PYTHON -c \"import socket; p = int(open('port').read()); s = socket.socket();"
        " s.sendto(b'x', socket.MSG_FASTOPEN, ('127.0.0.1', p))\"",
        is_heard,
        listen=_inet(socket.AF_INET, socket.SOCK_STREAM),
        needs="TCP fast open",
    ),
    Attempt("the network as the kernel tells it", f"$PROBE socket {NETLINK} {RAW} 0", is_held),
    Attempt("audit messages to the kernel", f"$PROBE socket {NETLINK} {RAW} 9", is_held, needs="audit"),
    Attempt("frames of the network cards", f"$PROBE socket {PACKET} {RAW} 0x300", is_held, needs_root=True),
    Attempt("the host of a virtual machine", f"$PROBE socket {VSOCK} {STREAM} 0", is_held, needs="vsock"),
    Attempt("algorithms in the kernel", f"$PROBE socket {ALGORITHM} {PACKETS} 0", is_held, needs="AF_ALG"),
    Attempt("frames past the kernel", f"$PROBE socket {XDP} {RAW} 0", is_held, needs_root=True, needs="XDP"),
]

LOOPBACK = [
    Attempt(
        "a service of the host from a loopback of its own",
        _spoken("AF_INET", "127.0.0.1"),
        is_heard,
        listen=_inet(socket.AF_INET, socket.SOCK_STREAM),
        profile="loopback",
    ),
    Attempt(
        "a socket with a path, which leads out of a network of its own",
        f"$PROBE connect ear {STREAM}",
        is_heard,
        listen=_named(socket.SOCK_STREAM),
        profile="loopback",
    ),
    Attempt(
        "a datagram with an abstract name from a network of its own",
        "$PROBE sendmmsg @$NAME",
        is_heard,
        listen=_abstract(socket.SOCK_DGRAM),
        profile="loopback",
    ),
    Attempt(
        "packets below the protocols in a network of its own",
        f"$PROBE socket {PACKET} {RAW} 0x300",
        is_held,
        profile="loopback",
        needs_root=True,
    ),
    Attempt(
        "the rules of the packet filter",
        f"$PROBE socket {NETLINK} {RAW} 12",
        is_held,
        profile="loopback",
        needs="netfilter",
    ),
]

NETWORKED = [
    Attempt(
        "frames of the network cards, with the network granted",
        f"$PROBE socket {PACKET} {RAW} 0x300",
        is_held,
        profile="networked",
        needs_root=True,
    ),
    Attempt(
        "packets that it makes up itself, with the network granted",
        f"$PROBE socket 2 {RAW} 1",
        is_held,
        profile="networked",
        needs_root=True,
    ),
    Attempt(
        "the host of a virtual machine, with the network granted",
        f"$PROBE socket {VSOCK} {STREAM} 0",
        is_held,
        profile="networked",
        needs="vsock",
    ),
    Attempt(
        "algorithms in the kernel, with the network granted",
        f"$PROBE socket {ALGORITHM} {PACKETS} 0",
        is_held,
        profile="networked",
        needs="AF_ALG",
    ),
]

SHARED = [
    Attempt(
        "shared memory of System V",
        "$PROBE shm $((0x$KEY))",
        is_leaked,
        prepare=lambda cell: {"KEY": _key(cell)},
        host_script="$PROBE make_shm $((0x$KEY)) $SECRET",
    ),
    Attempt(
        "a message of System V",
        "$PROBE msg $((0x$KEY))",
        is_leaked,
        prepare=lambda cell: {"KEY": _key(cell)},
        host_script="$PROBE make_msg $((0x$KEY)) $SECRET",
    ),
    Attempt(
        "semaphores of System V are removed",
        "$PROBE sem $((0x$KEY))",
        is_held,
        prepare=lambda cell: {"KEY": _key(cell)},
        host_script="$PROBE make_sem $((0x$KEY))",
    ),
    Attempt(
        "a message queue of POSIX",
        "$PROBE mq /$NAME",
        is_leaked,
        host_script="$PROBE make_mq /${NAME#v} $SECRET",
        needs="message queues",
    ),
    Attempt(
        "shared memory of POSIX",
        "cat /dev/shm/$NAME",
        is_leaked,
        host_script="echo $SECRET > /dev/shm/${NAME#v}",
    ),
    Attempt(
        "shared memory that programs of the host will find",
        "echo x > /dev/shm/$NAME",
        _is_shared,
    ),
    Attempt(
        "a key in the keyring of whoever started it",
        "$PROBE add_key $NAME",
        is_said("{}"),
        needs="keyrings",
    ),
    Attempt(
        "what is in a key of the host",
        "$PROBE request_key $NAME",
        is_leaked,
        host_script="$PROBE add_key ${NAME#v} $SECRET",
        needs="keyrings",
    ),
    Attempt(
        "all keys of whoever started it are removed",
        "$PROBE clear_keyring",
        is_held,
        needs="keyrings",
        is_alone=True,
    ),
]


def _key(cell: Cell) -> str:
    return f"{cell.token[1:]}{cell.number:02x}"[-7:]


@each_attempt(UNIX)
def test_restricted_command_reaches_nobody(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, UNIX, user)


@each_attempt(LOOPBACK)
def test_private_loopback_leads_nowhere(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, LOOPBACK, user)


@each_attempt(NETWORKED)
def test_network_is_no_more_than_the_network(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, NETWORKED, user)


@each_attempt(SHARED)
def test_command_shares_neither_memory_nor_keys(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, SHARED, user)
