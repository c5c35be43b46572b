"""Inputs to begin with: what the other side really sends, and what has once found a fault (seeds/)."""

from __future__ import annotations

import resource
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from paddock.c_string import c_strings
from paddock.intercept import wire
from paddock.model.profile import Limits
from paddock.process.spawn_request import SpawnRequest, spawn_payload
from paddock.sandbox.denial import stub_instruction
from paddock.sandbox.enforce import init
from paddock.sandbox.host.landlock_abi import Port, Right, Scope
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.plan.landlock import Ruleset
from paddock.sandbox.plan.mount import Mask, MaskKind
from paddock.transport import frames

_FAULTS = Path(__file__).parent / "seeds"

_HEADER = struct.Struct("<II")
_SPAWN, _KILL = 1, 2


def seeds_of(driver: str) -> Mapping[str, bytes]:
    """All inputs of a driver, by name."""
    made = {f"made-{number:02}": data for number, data in enumerate(_MAKERS[driver]())}
    found = {file.name: file.read_bytes() for file in (_FAULTS / driver).glob("*")}
    return {**made, **found}


def _frames() -> list[bytes]:
    inputs = []
    for size in (0, 1, 125, 126, 300, 65535, 65536):
        payload = bytes(index % 251 for index in range(size))
        plain = frames.frame_head(frames.TEXT, size) + payload
        masked = bytes(frames.masked_frame(frames.BINARY, payload, b"\x01\x80\xff\x10"))
        inputs += [b"\x00\xff" + plain + plain[:400], b"\x01\xff" + masked + masked[:400]]
    inputs.append(b"\x01\xff" + bytes(frames.masked_frame(frames.TEXT, b"unmasked", bytes(4))))
    inputs.append(b"\x00\xff" + frames.frame_head(frames.PING, 2) + b"ab")
    # Lengths that are written longer than need be.
    inputs += [b"\x00\xff\x81\x7e\x00\x02ab", b"\x00\xff\x81\x7f" + bytes(7) + b"\x02ab"]
    return inputs


def _messages() -> list[bytes]:
    long = b"QUJD" * 300
    members = b",".join(b'"%d":%d' % (key, key) for key in range(64))
    texts = [
        b'{"id":1,"method":"initialize","params":{}}',
        b'{"jsonrpc":"2.0","id":"abc","method":"process/write","params":{"processId":"p","chunk":"aGVsbG8="}}',
        b'{"method":"initialized","params":null}',
        b'{"id":-7,"result":{"path":"/tmp","list":[1,2,{"deep":[[[true,false,null]]]}],"number":-12}}',
        b' { "id" : 3 , "method" : "x" , "params" : { "a" : "" , "b" : [ ] , "c" : { } } } ',
        b'{"id":2,"result":{"dataBase64":"' + long + b'","more":1}}',
        b'{"id":2,"method":"fs/writeFile","params":{"dataBase64":"' + long * 3 + b'"}}',
        b'{"id":2,"method":"m","params":{"a":"' + long * 3 + b'","b":"' + long + b'"}}',
        b'{"id":999999999999999999,"method":"m"}',
        b'{"id":1,"method":"m","params":{' + members + b"}}",
    ]
    return [b"\xff\x10" + text for text in texts] + [b"\x05\x02" + text for text in texts]


def _spawns() -> list[bytes]:
    variables = {"PATH": "/usr/bin::/bin", "HOME": "/root", "EMPTY": ""}
    limits = {resource.RLIMIT_NOFILE: (10, 20), resource.RLIMIT_CPU: (-1, -1)}
    requests = [
        SpawnRequest("true", ["true"], "/", variables, (0, 1, 2), is_terminal=False),
        SpawnRequest(
            "/bin/sh", ["sh", "-c", "exit 3"], "/tmp", variables, (0,), is_terminal=True, rlimits=limits
        ),
        SpawnRequest(
            "x" * 300, ["", "é"], "/", {}, (0, 1, 2), is_terminal=False, inherited=(3, 4), is_shielded=True
        ),
    ]
    inputs = []
    for request in requests:
        fds = len(request.fds) + len(request.inherited)
        payload = spawn_payload(77, request)
        message = _HEADER.pack(len(payload), _SPAWN) + payload
        kill = _HEADER.pack(4, _KILL) + struct.pack("<i", 4242)
        inputs += [bytes((fds, chunk, 0)) + message + kill + message for chunk in (0, 3)]
        # Every step of a child that can fail, as spawner_driver.c counts them.
        inputs += [bytes((fds, 0, fails)) + message for fails in (*(1 << step for step in range(8)), 0x90)]
    inputs.append(bytes((255, 0, 0)) + _HEADER.pack(28, _SPAWN) + bytes(28))
    return inputs


def _words() -> list[bytes]:
    limits = Limits(
        memory_bytes=1 << 30, cpu_seconds=5, file_bytes=1, open_files=64, processes=9, wall_seconds=3
    )
    ruleset = Ruleset(Right.WRITE_FILE | Right.MAKE_DIR, Port(0), Scope(0), ("/tmp", "/nowhere"))
    masks = [
        Mask("/a/.git", MaskKind.GUARD),
        Mask("/a/.hg", MaskKind.GUARD),
        Mask("/b/x"),
        Mask("/p", MaskKind.PRIVATE),
    ]
    mounted = [MountedFile("/a", 1, 2), MountedFile("/a/b", 1, 2)]
    files = init.descriptor_words(
        filter_fd=7,
        trace_fd=8,
        kept_fd=(10, 250),
        report_fd=9,
        cgroup_fd=11,
        memory_fd=13,
        listening=(12, (3128, 1080)),
    )
    said = init.words(
        limits=limits,
        ruleset=ruleset,
        argv0="name",
        environment={"PATH": ":/usr/bin:/bin:", "A": ""},
        cwd="/a",
        mounted=mounted,
        masks=masks,
    )
    full = [*files, *said]
    held = [*init.descriptor_words(report_fd=9), *init.words(masks=masks, holds=True), "--"]
    commands = [["--", "true"], ["--", "/bin/sh", "-c", "exit"], ["--", "x" * 300, ""]]
    inputs = [_line(["init", *full, *command]) for command in commands]
    inputs += [_line(["init", *held]), _line(["init", *held], in_line=1)]
    # Every way in which the kernel can answer, as init_driver.c counts them.
    answers = [0, *(1 << bit for bit in range(13)), 0x130, 0xC00]
    inputs += [_line(["init", *full, *commands[0]], in_line=2, answers=answer) for answer in answers]
    inputs += [_line(["init", "mask=/a", *commands[0]], answers=0x120)]
    kept = [*init.words(ruleset=ruleset, holds=True), "--"]
    inputs += [
        _line(["paddock-worker", "seccomp=7", *kept], in_line=2, answers=1 << 13 | answer)
        for answer in (*answers, 1 << 14, 0x8002, 0x8102)
    ]
    inputs += [_line(["paddock-worker", *kept], answers=1 << 13)]
    # Starts of bubblewrap; what is to be mounted early is in the file behind the words.
    start = ["--", "/usr/bin/bwrap", "--args", "4"]
    starts = [
        init.bubblewrap_words(
            has_own_mounts=True, has_ready_devices=True, read_only=("/dev/null", "/dev/tty")
        ),
        init.bubblewrap_words(early_fds=(3, 4, 5)),
        init.bubblewrap_words(has_own_mounts=True, early_fds=(3, 4, 5), read_only=("/dev/null",)),
    ]
    inputs += [
        _line(["init", *words, *start, "r/a/b", "w/c"], in_line=len(words) + 5, answers=answer)
        for words in starts
        for answer in (0, 1 << 3, 1 << 6, 1 << 7)
    ]
    # SIGTERM of a stranger, SIGIO of the kernel and SIGUSR1 of the command.
    signals = [
        struct.pack("<IiiI112x", *signal) for signal in ((15, 0, 0, 0), (29, 0, 0x80, 0), (10, 0, 0, 77))
    ]
    for answer in (0, 1 << 11, 1 << 12, 3 << 11):
        inputs += [
            _line(words, answers=answer, signals=signals * 11)
            for words in (["init", *held], ["init", *full, *commands[0]])
        ]
    return inputs


def _line(
    words: Sequence[str], *, in_line: int = 255, answers: int = 0, signals: Sequence[bytes] = ()
) -> bytes:
    head = struct.pack("<BHB", in_line, answers, len(signals))
    return head + b"".join(signals) + c_strings(words, sys.getfilesystemencoding())


def _packets() -> list[bytes]:
    git, file, other = "d10:a:/a/.git", "f10:a:/a/.config", "d10:b:/b/c/place"

    def packet(verb: bytes, *items: str) -> bytes:
        data = verb + c_strings(items, sys.getfilesystemencoding())
        return struct.pack("<H", len(data)) + data

    hold, drop, linger, time = (
        packet(b"h", git, file, other),
        packet(b"d", git, file),
        packet(b"l", other),
        packet(b"t"),
    )
    dead = packet(b"j", git, file, "d10:a:/a/gone", "f10:c:/elsewhere/x")
    return [
        hold + drop + linger + time,
        hold + hold + drop + dead + time + time,
        packet(b"h", git, "f10:a:/a/.git"),
        packet(b"h", git, git, file) + packet(b"x") + hold + drop + packet(b"x") + drop,
        hold + dead + packet(b"j", git) + linger,
        packet(b"h", "d10:a:/a/" + "n" * 255, "d10:a:/a/" + "n" * 256, "d10:a:/" + "deep/" * 1000 + "x"),
        packet(
            b"h", "", "d", "d10", "d10:a", "d10:a:x", "d10:a:/a/..", "d10:a:/a/", "x10:a:/a/x", "dg:a:/a/x"
        ),
        packet(b"?", git),
        # More than a journal takes.
        packet(b"h", *(["nothing" * 30] * 300)) + packet(b"r") + hold,
    ]


def _instructions() -> list[bytes]:
    return [
        stub_instruction.deny("Execution denied: no\n"),
        stub_instruction.run(b"/bin/sh", [b"sh", b"-c", b"", b"\xff"], [b"A=1", b"B="]),
        stub_instruction.run(b"x", [], []),
    ]


def _texts() -> list[bytes]:
    texts = [
        b"4242 (sh) S 1 4242 4242 0 -1 4194560 95 0",
        b"7 (a) b) (c) R 4194303 1",
        b"7 (cut) S",
        b"7 (cut) S ",
        b"18446744073709551615",
        b"18446744073709551616",
        b"ffffffffffffffffx",
        b"/usr/lib//x/../y/",
        b"/" + b"n" * 255 + b"/" + b"n" * 256,
        b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 22 0:5 / /m\\040s rw shared:7 - tmpfs shared:1 rw\n",
        b"22 1 8:1 / /master:1 rw unbindable - ext4 s m\n23 1 0:4 / /p rw master:2 - proc p rw\n",
        b"Name:\tsh\nState:\tT (stopped)\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n",
        b"State:\tD\nVmSize:\t9\nShdPnd:\t8\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t0\n",
        b"State:\tD\nVmSize:\t9\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t0\n",
        b"State:\tS\nSigPnd:\t40000\nVmSize:\t9\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t0\n",
        b"ID: 0\nsignal: 14/0\nnotify: signal/pid.9\nClockID: 1\nID: 1\nsignal: 18/0\nnotify: signal/tid.9\n",
        b"ID: 0\nsignal: 9/0\nnotify: none/pid.9\nClockID: 1\nID: 1\nsignal: 9/0\nnotify: thread/pid.9\n",
        b"/none\x1b]0;title\x07 \x9b\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\xbf\xf0\x9f\x98\x80\t\xed\xa0\x80",
    ]
    return [bytes((base, 255)) + text for text in texts for base in (0, 1)]


def _strings() -> list[bytes]:
    pairs = [
        (b"", b""),
        (b"PATH=/bin", b"PATH="),
        (b"/a//b/.git", b"/"),
        (b"a\xffb", b"a\x7fb"),
        (b"abc", b"cab"),
    ]
    return [bytes((5, character)) + one + b"\0" + other for one, other in pairs for character in b"/\xff"]


def _answers() -> list[bytes]:
    answers = [wire.run(), wire.escalate(), wire.deny(None), wire.deny('é "quoted"\\ 😀'), wire.exited(-1)]
    return [
        *(answer[4:] for answer in answers),
        b' { "more" : [ 1 , { "a" : null } , true ] , "action" : "Run" } ',
        b'{"action":{"Deny":{"reason":"\\ud83d\\ude00 \\udcff \\ud800 \\/ \\n"}}}',
        '/bin/é😀\nA=1\nCODEX_ESCALATE_SOCKET=3\nB\x01"\\'.encode(),
        b"\xff\xc0\x80\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80\xf0\x9f\n=\n\xe2\x82",
    ]


_MAKERS = {
    "frames": _frames,
    "scan": _messages,
    "values": _messages,
    "spawner": _spawns,
    "init": _words,
    "janitor": _packets,
    "stub": _instructions,
    "wrapper": _answers,
    "text": _texts,
    "bare": _strings,
}
