"""THE list of what Paddock deliberately does otherwise than the recorded peer.

Each entry names the recorded steps that do not hold, the steps that hold in
their place, and why. Whatever is not listed here must happen as recorded, and an
entry whose recorded steps hold after all is an error: the tests see to both. For
people, and with what no recording shows, it is docs/explanation/compatibility.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.conformance.transcript import Transcript, read_step


@dataclass(frozen=True, slots=True)
class Deviation:
    """In `transcript`, Paddock does `instead` of the steps numbered `first` to `last`."""

    transcript: str
    first: int
    last: int
    instead: tuple[dict[str, Any], ...]
    reason: str

    def __str__(self) -> str:
        return f"{self.transcript}-{self.first}"


def _answer(request_id: int, result: dict[str, Any], *, in_order: bool = False) -> dict[str, Any]:
    return {"expect": {"id": request_id, "result": result}, "inOrder": in_order}


def _refusal(request_id: int, code: int) -> dict[str, Any]:
    return {"expect": {"error": {"code": code, "message": "<str>"}, "id": request_id}, "inOrder": True}


_NOTIFICATION_REFUSED = (
    _refusal(-1, -32600),
    {"send": {"id": 900, "method": "environment/status"}},
    _answer(900, {"status": "ready"}, in_order=True),
)
"""The error for a message without an id, and a connection that goes on."""

_NOTIFICATION_REASON = (
    "a notification that makes no sense is answered with an error of id -1, and the connection goes on: one "
    "mistake of a client must not cost it all its requests under way"
)
_METHOD_REASON = (
    "the method exists: the parameters are checked and the process is looked up, as for any other method"
)
_WRITE_REASON = "a write that can't reach the process says so, however the process ended"
_TERMINAL_REASON = (
    "a process killed by signal n has exit code 128+n on a terminal too: the same death, the same number"
)

_ABSOLUTE_REASON = "an absolute path is accepted wherever a file: URI is"

_ABSOLUTE_CWD_START = {
    "processId": "absolute",
    "argv": ["/bin/sh", "-c", "pwd"],
    "cwd": "/",
    "env": {"PATH": "/usr/bin:/bin"},
    "tty": False,
}

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "006_unexpected_notification_closes", 7, 7, instead=_NOTIFICATION_REFUSED, reason=_NOTIFICATION_REASON
    ),
    Deviation(
        "007_request_method_as_notification_closes",
        7,
        7,
        instead=_NOTIFICATION_REFUSED,
        reason=_NOTIFICATION_REASON,
    ),
    Deviation("013_unknown_methods", 7, 7, instead=(_refusal(3, -32600),), reason=_METHOD_REASON),
    Deviation("013_unknown_methods", 9, 9, instead=(_refusal(4, -32602),), reason=_METHOD_REASON),
    Deviation("013_unknown_methods", 11, 11, instead=(_refusal(5, -32600),), reason=_METHOD_REASON),
    Deviation("013_unknown_methods", 13, 13, instead=(_refusal(6, -32600),), reason=_METHOD_REASON),
    Deviation(
        "026_write_statuses",
        11,
        11,
        instead=(_refusal(5, -32600),),
        reason="a write without a writeId is the plain form: it may be left out, and a refusal is an error",
    ),
    Deviation(
        "027_write_after_terminate",
        10,
        10,
        instead=(_answer(4, {"status": "stdinClosed"}),),
        reason=_WRITE_REASON,
    ),
    Deviation(
        "027_write_after_terminate",
        15,
        15,
        instead=(_answer(6, {"status": "stdinClosed"}),),
        reason=_WRITE_REASON,
    ),
    Deviation(
        "029_terminate_tty",
        8,
        8,
        instead=(
            {"expectProcess": {"processId": "p", "output": {}, "exitCode": 137, "sandboxDenied": False}},
        ),
        reason=_TERMINAL_REASON,
    ),
    Deviation(
        "030_signal_interrupt",
        19,
        19,
        instead=(
            {"expectProcess": {"processId": "t", "output": {}, "exitCode": 130, "sandboxDenied": False}},
        ),
        reason=_TERMINAL_REASON,
    ),
    Deviation(
        "031_signal_bad",
        9,
        9,
        instead=(_answer(4, {}),),
        reason="every signal can be sent, under its POSIX name; like interrupt, to an unknown process too",
    ),
    Deviation(
        "037_start_bad_cwd",
        4,
        5,
        instead=(
            # A process id of its own: the rest of the recording starts `b` and expects it to be free.
            {"send": {"id": 2, "method": "process/start", "params": _ABSOLUTE_CWD_START}},
            _answer(2, {"processId": "absolute", "sandboxType": "none"}),
            {
                "expectProcess": {
                    "processId": "absolute",
                    "output": {"stdout": "<base64:/\n>"},
                    "exitCode": 0,
                    "sandboxDenied": False,
                }
            },
        ),
        reason=_ABSOLUTE_REASON,
    ),
    Deviation(
        "051_resume_after_kick",
        7,
        7,
        # The connection is still there and holds the session: it must go before another one can resume.
        instead=(*_NOTIFICATION_REFUSED, {"close": "a"}),
        reason=_NOTIFICATION_REASON,
    ),
    Deviation(
        "053_inline_order",
        8,
        9,
        instead=(
            _answer(101, {"status": "ready"}, in_order=True),
            _answer(
                100,
                {
                    "chunks": [],
                    "nextSeq": 1,
                    "exited": False,
                    "exitCode": None,
                    "closed": False,
                    "failure": None,
                    "sandboxDenied": False,
                },
                in_order=True,
            ),
        ),
        reason=(
            "requests run concurrently unless the server was told otherwise, so a long poll delays nobody; "
            "with --concurrent-requests 1 the recording holds unchanged"
        ),
    ),
    Deviation(
        "060_fs_readFile",
        28,
        28,
        instead=(_answer(13, {"dataBase64": "<base64:hello>"}),),
        reason=_ABSOLUTE_REASON,
    ),
    Deviation(
        "090_sandbox_shape_errors",
        22,
        22,
        instead=(_answer(10, {"dataBase64": "<base64:hello>"}),),
        reason=_ABSOLUTE_REASON,
    ),
    Deviation(
        "090_sandbox_shape_errors",
        26,
        26,
        instead=(_answer(12, {"dataBase64": "<base64:hello>"}),),
        reason=_ABSOLUTE_REASON,
    ),
)


def deviations_of(transcript: Transcript) -> list[Deviation]:
    """The entries that concern this conversation."""
    return [deviation for deviation in DEVIATIONS if deviation.transcript == transcript.name]


def with_deviations(transcript: Transcript, *, but: Deviation | None = None) -> Transcript:
    """The conversation as Paddock holds it, leaving the steps of `but` as recorded.

    Raises ValueError for an entry whose steps do not exist or overlap another's.
    """
    for deviation in deviations_of(transcript):
        if deviation is not but:
            steps = [read_step(step) for step in deviation.instead]
            transcript = transcript.replace(deviation.first, deviation.last, steps)
    return transcript
