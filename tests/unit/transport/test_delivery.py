"""The rules by which a receiver is called."""

from __future__ import annotations

import asyncio

from paddock.transport.delivery import Delivery
from paddock.transport.link import Link
from tests.unit.transport.recorder import Recorder


class StillLink(Link):
    """Carries nothing, so that a test can call the receiver's side by hand."""

    def __init__(self) -> None:
        self.peer = "nobody"
        self.reopened = 0
        self.ended = 0
        self.delivery = Delivery(self, reopen=self._reopen, ended=self._ended)
        self.recorder = Recorder(self)
        self.delivery.attach(lambda _: self.recorder)

    def _reopen(self) -> None:
        self.reopened += 1

    def _ended(self) -> None:
        self.ended += 1

    @property
    def buffered_bytes(self) -> int:
        return 0

    def send(self, message: bytes | bytearray) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...

    def abort(self) -> None:
        self.delivery.stop()
        self.delivery.finish(None)


async def test_what_was_held_back_goes_before_what_comes_after_the_pause() -> None:
    link = StillLink()
    link.delivery.pause()
    link.delivery.deliver([b"one"])
    link.delivery.resume()
    link.delivery.deliver([b"two"])
    assert link.recorder.messages == []
    assert await link.recorder.received(2) == [b"one", b"two"]


async def test_what_is_held_back_outlives_the_buffer_it_came_in() -> None:
    link = StillLink()
    buffer = bytearray(b"one")
    link.delivery.pause()
    link.delivery.deliver([memoryview(buffer)])
    buffer[:] = b"xxx"
    link.delivery.resume()
    assert await link.recorder.received(1) == [b"one"]


async def test_input_is_reopened_only_when_nothing_is_held_back() -> None:
    link = StillLink()
    link.delivery.pause()
    link.delivery.deliver([b"one"])
    link.delivery.deliver([b"two"])
    link.recorder.on_message = lambda _: link.delivery.pause()
    link.delivery.resume()
    await link.recorder.received(1)
    assert (link.recorder.messages, link.reopened) == ([b"one"], 0)
    link.recorder.on_message = None
    link.delivery.resume()
    await link.recorder.received(2)
    await asyncio.sleep(0)
    assert link.reopened == 1


async def test_an_end_discards_what_is_held_back() -> None:
    link = StillLink()
    link.delivery.pause()
    link.delivery.deliver([b"one"])
    link.delivery.resume()
    link.delivery.finish(None)
    await asyncio.sleep(0)
    assert link.recorder.messages == []
    assert link.reopened == 0


async def test_the_end_is_told_once_with_the_first_fault() -> None:
    link = StillLink()
    fault = RuntimeError("first")
    link.delivery.fail(fault)
    link.delivery.fail(RuntimeError("second"))
    link.delivery.finish(RuntimeError("third"))
    assert link.recorder.error is fault
    assert link.ended == 1


async def test_a_receiver_that_fails_at_the_signals_loses_its_link() -> None:
    for signal in ("writing_paused", "writing_resumed"):
        link = StillLink()
        fault = RuntimeError(signal)

        def fail(fault: Exception = fault) -> None:
            raise fault

        setattr(link.recorder, signal, fail)
        getattr(link.delivery, signal)()
        assert link.recorder.error is fault


async def test_a_receiver_that_fails_at_its_end_is_forgotten_all_the_same() -> None:
    link = StillLink()

    def fail(error: Exception | None) -> None:
        raise RuntimeError("at the end")

    link.recorder.link_closed = fail  # type: ignore[method-assign]
    link.delivery.finish(None)
    assert link.ended == 1


async def test_a_receiver_that_fails_at_what_was_held_back_loses_its_link() -> None:
    link = StillLink()

    def fail(_: bytes) -> None:
        raise ValueError("a bug")

    link.recorder.on_message = fail
    link.delivery.pause()
    link.delivery.deliver([b"one", b"two"])
    link.delivery.resume()
    await link.recorder.until(lambda: link.recorder.is_closed)
    assert link.recorder.messages == [b"one"]
    assert isinstance(link.recorder.error, ValueError)
