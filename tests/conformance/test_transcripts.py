"""The server holds the recorded conversations as the peer did, but for what is listed in `deviations`."""

from __future__ import annotations

import pytest

from tests.conformance.deviations import DEVIATIONS, Deviation, with_deviations
from tests.conformance.replayer import ReplayFailed, replay
from tests.conformance.server import Servers
from tests.conformance.transcript import Transcript, read_transcripts

TRANSCRIPTS = {transcript.name: transcript for transcript in read_transcripts()}


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=lambda transcript: transcript.name)
async def test_conversation_goes_as_recorded_but_for_the_listed_deviations(
    transcript: Transcript, servers: Servers, is_peer: bool
) -> None:
    expected = transcript if is_peer else with_deviations(transcript)
    await replay(expected, servers.url(transcript.server_args))


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=str)
async def test_listed_deviation_still_differs_from_the_recording(
    deviation: Deviation, servers: Servers, is_peer: bool
) -> None:
    if is_peer:
        pytest.skip("the recorded peer does not deviate from itself")
    transcript = with_deviations(TRANSCRIPTS[deviation.transcript], but=deviation)
    with pytest.raises(ReplayFailed) as failure:
        await replay(transcript, servers.url(transcript.server_args))
    assert deviation.first <= failure.value.number <= deviation.last


async def test_serial_server_answers_in_the_recorded_order(servers: Servers) -> None:
    await replay(TRANSCRIPTS["053_inline_order"], servers.url(("--concurrent-requests", "1")))
