from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.deviations import DEVIATIONS, Deviation, with_deviations
from tests.conformance.transcript import (
    Close,
    Expect,
    Line,
    Sleep,
    Transcript,
    read_step,
    read_transcript,
    read_transcripts,
)

CONVERSATION = Transcript("t", (), tuple(Line(n, Sleep(sleep=n)) for n in range(1, 5)))


def numbers(transcript: Transcript) -> list[int]:
    return [line.number for line in transcript.lines]


@pytest.mark.parametrize(
    "step",
    [
        {},
        {"conn": "a"},
        {"expectMiracle": True},
        {"send": {}, "expect": {}},
        {"send": {}, "inOrder": True},
        {"send": "text"},
        {"expectProcess": {"processId": "p", "output": {}, "exitCode": 0}},
        {"sendBinary": "!"},
    ],
)
def test_step_that_is_not_understood_is_refused(step: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="step"):
        read_step(step)


def test_wording_of_an_error_is_free_and_its_code_is_not() -> None:
    step = read_step({"expect": {"error": {"code": -32600, "message": "as recorded"}, "id": 1}})
    assert isinstance(step, Expect)
    assert step.expect == {"error": {"code": -32600, "message": "<str>"}, "id": 1}


def test_recording_under_a_wrong_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "002_b.json"
    path.write_text('[{"meta": {"name": "001_a", "description": "", "recordedFrom": ""}}]')
    with pytest.raises(ValueError, match="001_a"):
        read_transcript(path)


def test_steps_around_replaced_ones_keep_their_numbers() -> None:
    changed = CONVERSATION.replace(2, 3, [Close(close="a"), Close(close="b"), Close(close="c")])
    assert numbers(changed) == [1, 2, 2, 2, 4]
    assert numbers(changed.replace(4, 4, [])) == [1, 2, 2, 2]


@pytest.mark.parametrize(("first", "last"), [(0, 1), (4, 5), (9, 9), (3, 2)])
def test_steps_that_were_not_recorded_cannot_be_replaced(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="no recorded steps"):
        CONVERSATION.replace(first, last, [])


@pytest.mark.parametrize(("first", "last"), [(2, 2), (1, 2), (2, 3)])
def test_steps_cannot_be_replaced_twice(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="no recorded steps"):
        CONVERSATION.replace(2, 2, [Close(close="a")]).replace(first, last, [])


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=str)
def test_deviation_names_steps_of_a_recording(deviation: Deviation) -> None:
    transcripts = {transcript.name: transcript for transcript in read_transcripts()}
    changed = with_deviations(transcripts[deviation.transcript])
    assert any(line.number == deviation.first and not line.is_recorded for line in changed.lines)
    assert deviation.reason
