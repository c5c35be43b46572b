"""A recorded conversation as data: steps, read strictly from JSON. Pure.

A step that is not understood, in kind or in a field, is an error: it must never
be skipped and counted as a success.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

TRANSCRIPTS = Path(__file__).with_name("transcripts")

ANY_WORDING = "<str>"
"""What an error message is compared with: its code is protocol, its words are each server's own."""


class _Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One thing that the client does or waits for."""


class _OnConnection(_Step, frozen=True, kw_only=True):
    """A step on one connection, which is opened when it is first named."""

    conn: str = "a"


class Send(_OnConnection, frozen=True, kw_only=True):
    """Send a JSON message in a text frame."""

    send: dict[str, Any]


class SendRaw(_OnConnection, frozen=True, kw_only=True):
    """Send this text, JSON or not."""

    send_raw: str


class SendBinary(_OnConnection, frozen=True, kw_only=True):
    """Send these bytes in a binary frame; in base64 as written."""

    send_binary: bytes


class Expect(_OnConnection, frozen=True, kw_only=True):
    """Wait for the answer to an id or, if the pattern has a method, for such a notification.

    With `in_order` it must be the next message. `capture` maps names to the
    places (`result.sessionId`) of values that later steps use as `${NAME}`.
    """

    expect: dict[str, Any]
    in_order: bool = False
    capture: dict[str, str] = {}


class ProcessEnd(_Step, frozen=True, kw_only=True):
    """All output of a process that was not awaited before, by stream, and how it ended."""

    process_id: str
    output: dict[str, str]
    exit_code: int
    sandbox_denied: bool


class ExpectProcess(_OnConnection, frozen=True, kw_only=True):
    """Wait for the end of a process."""

    expect_process: ProcessEnd


class LiveOutput(_Step, frozen=True, kw_only=True):
    """How the output of a stream goes on."""

    process_id: str
    stream: str
    text: str


class ExpectOutput(_OnConnection, frozen=True, kw_only=True):
    """Wait until so much output has arrived."""

    expect_output: LiveOutput


class ExpectRead(_OnConnection, frozen=True, kw_only=True):
    """Wait for the answer to a `process/read`; its chunks are compared joined, as `output`."""

    expect_read: dict[str, Any]


class ExpectClosed(_OnConnection, frozen=True, kw_only=True):
    """The server drops the connection without another message."""

    expect_closed: bool


class ExpectSilence(_OnConnection, frozen=True, kw_only=True):
    """Nothing arrives for so many seconds."""

    expect_silence: float


class Close(_Step, frozen=True, kw_only=True):
    """Close a connection from the client's side."""

    close: str


class Sleep(_Step, frozen=True, kw_only=True):
    """Let so many seconds pass, as they passed in the recording."""

    sleep: float


class Tree(_Step, frozen=True, kw_only=True):
    """What is in a directory: directories, files with their content, links with their target, fifos."""

    dirs: tuple[str, ...] = ()
    files: dict[str, str] = {}
    symlinks: dict[str, str] = {}
    fifos: tuple[str, ...] = ()


class Setup(_Step, frozen=True, kw_only=True):
    """Make the directory that is called `${ROOT}`."""

    setup: Tree


class ExpectFile(_Step, frozen=True, kw_only=True):
    """A file below `${ROOT}` has this content, or does not exist if none is given."""

    expect_file: str
    content: str | None = None


class Touch(_Step, frozen=True, kw_only=True):
    """Make an empty file below `${ROOT}`."""

    touch: str


class MakeDirectory(_Step, frozen=True, kw_only=True):
    """Make a directory below `${ROOT}`, with its parents."""

    mkdir: str


ConnectionStep = (
    Send
    | SendRaw
    | SendBinary
    | Expect
    | ExpectProcess
    | ExpectOutput
    | ExpectRead
    | ExpectClosed
    | ExpectSilence
)
FileStep = Setup | ExpectFile | Touch | MakeDirectory
Step = ConnectionStep | FileStep | Close | Sleep

_KINDS: dict[str, type[Step]] = {
    "send": Send,
    "sendRaw": SendRaw,
    "sendBinary": SendBinary,
    "expect": Expect,
    "expectProcess": ExpectProcess,
    "expectOutput": ExpectOutput,
    "expectRead": ExpectRead,
    "expectClosed": ExpectClosed,
    "expectSilence": ExpectSilence,
    "close": Close,
    "sleep": Sleep,
    "setup": Setup,
    "expectFile": ExpectFile,
    "touch": Touch,
    "mkdir": MakeDirectory,
}


class Meta(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The first element of a recording: what it shows, of whom, and the flags that the server needs."""

    name: str
    description: str
    recorded_from: str
    server_args: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A step and its number: the index in the file, where `meta` has 0."""

    number: int
    step: Step
    is_recorded: bool = True


@dataclass(frozen=True, slots=True)
class Transcript:
    """One conversation."""

    name: str
    server_args: tuple[str, ...]
    lines: tuple[Line, ...]

    def replace(self, first: int, last: int, steps: Sequence[Step]) -> Transcript:
        """The conversation with other steps in place of those numbered `first` to `last`, both included.

        The new ones have the number of the first. Raises ValueError when the
        recording has no such steps, or they were replaced before.
        """
        places = {line.number: place for place, line in enumerate(self.lines) if line.is_recorded}
        if first > last or not places.keys() >= set(range(first, last + 1)):
            raise ValueError(f"{self.name} has no recorded steps {first} to {last}")
        new = [Line(first, step, is_recorded=False) for step in steps]
        lines = (*self.lines[: places[first]], *new, *self.lines[places[last] + 1 :])
        return Transcript(self.name, self.server_args, lines)


def read_step(value: dict[str, Any]) -> Step:
    """The step that a JSON object describes. Raises ValueError for one that is not understood."""
    kinds = [kind for key, kind in _KINDS.items() if key in value]
    if len(kinds) != 1:
        raise ValueError(f"a step has exactly one kind, not {len(kinds)}: {value}")
    try:
        step = msgspec.convert(value, kinds[0])
    except msgspec.ValidationError as error:
        raise ValueError(f"a step is not understood: {error}: {value}") from error
    if isinstance(step, Expect) and "message" in step.expect.get("error", {}):
        return msgspec.structs.replace(step, expect=_with_any_wording(step.expect))
    return step


def read_transcript(path: Path) -> Transcript:
    """Read one recording. Raises ValueError for anything in it that is not understood."""
    head, *steps = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    meta = msgspec.convert(head["meta"], Meta)
    if meta.name != path.stem:
        raise ValueError(f"{path.name} calls itself {meta.name}")
    lines = tuple(Line(number, read_step(step)) for number, step in enumerate(steps, start=1))
    return Transcript(meta.name, meta.server_args, lines)


def read_transcripts() -> list[Transcript]:
    """Every recording, by name."""
    return [read_transcript(path) for path in sorted(TRANSCRIPTS.glob("*.json"))]


def _with_any_wording(pattern: dict[str, Any]) -> dict[str, Any]:
    return {**pattern, "error": {**pattern["error"], "message": ANY_WORDING}}
