"""Both ends of Paddock's WebSockets against the catalogue of `websocket_cases`, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest
import uvloop

from paddock.transport import websocket
from paddock.transport.limits import WebSocketLimits
from paddock.transport.link import Link, Received
from tests import tls
from tests.conformance.websocket_cases import CASES, Case
from tests.conformance.websocket_deviations import DEVIATIONS, deviation_of, with_deviations
from tests.conformance.websocket_peer import PATIENCE_S, Outcome, Peer

LIMITS = WebSocketLimits(ping_interval_s=None)


class Echo:
    """A receiver that sends every message back."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def message_received(self, message: Received) -> None:
        self._link.send(bytes(message))

    def writing_paused(self) -> None:
        pass

    def writing_resumed(self) -> None:
        pass

    def link_closed(self, error: Exception | None) -> None:
        pass


class Ends:
    """Paddock's ends, on an event loop of their own, with TLS or without."""

    def __init__(self, *, is_secure: bool) -> None:
        self._is_secure = is_secure
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        context = tls.server_context() if is_secure else None
        listening = websocket.listen("127.0.0.1", 0, Echo, LIMITS, ssl_context=context)
        self._listener = asyncio.run_coroutine_threadsafe(listening, self._loop).result(PATIENCE_S)

    def close(self) -> None:
        """End everything."""
        asyncio.run_coroutine_threadsafe(self._listener.aclose(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hold_with_server(self, case: Case) -> Outcome:
        """Hold a conversation as the client of our server."""
        return Peer.connect(self._listener.url, tls.client_context() if self._is_secure else None).hold(case)

    def hold_with_client(self, case: Case) -> Outcome:
        """Hold a conversation as the server of our client."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            scheme = "wss" if self._is_secure else "ws"
            url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
            contexts: tuple[ssl.SSLContext | None, ssl.SSLContext | None] = (None, None)
            if self._is_secure:
                contexts = tls.client_context(), tls.server_context()
            connecting = websocket.connect(url, Echo, ssl_context=contexts[0])
            link = asyncio.run_coroutine_threadsafe(connecting, self._loop)
            peer = Peer.accept(listener, contexts[1])
            link.result(PATIENCE_S)
            return peer.hold(case)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "TLS"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Listen, once for all cases."""
    ends = Ends(is_secure=request.param)
    yield ends
    ends.close()


def fault(case: Case, outcome: Outcome) -> str | None:
    """Tell what is wrong with an outcome."""
    if tuple(outcome.answers) != case.answers:
        shown = [(answer.opcode, answer.payload[:40]) for answer in outcome.answers[:20]]
        return f"the answers are {shown}"
    if outcome.code is None:
        return None if case.may_drop else "the connection was dropped"
    return None if outcome.code in case.codes else f"the code is {outcome.code}"


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("end", ["server", "client"])
def test_frames_get_the_answer_that_the_catalogue_asks_for(ends: Ends, end: str, case: Case) -> None:
    ours = with_deviations(case)
    hold = ends.hold_with_server if end == "server" else ends.hold_with_client
    outcome = hold(ours)
    assert fault(ours, outcome) is None
    if ours is not case:
        assert fault(case, outcome) is not None, "the deviation is not needed"


def test_the_catalogue_is_whole() -> None:
    counts: dict[str, int] = {}
    for case in CASES:
        group = case.number.split(".")[0]
        counts[group] = counts.get(group, 0) + 1
    assert counts == {"1": 16, "2": 11, "3": 7, "4": 10, "5": 20, "6": 145, "7": 37, "9": 54, "10": 1}
    assert len({case.number for case in CASES}) == len(CASES)


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda deviation: deviation.pattern)
def test_a_deviation_concerns_a_case(deviation: object) -> None:
    assert any(deviation_of(case) is deviation for case in CASES)
