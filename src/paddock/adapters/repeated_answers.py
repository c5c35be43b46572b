"""Answers to HTTP requests that a client may repeat under the same name: each is worked out once.

What is remembered is bounded in number and in size.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response

REMEMBERED: Final = 64
"""How many of the latest requests may be repeated."""

REMEMBERED_BYTES: Final = 256 * 1024 * 1024
"""The size of all remembered answers, unless the latest alone is larger: two of commands that write as much
as they may to both streams, in JSON that needs no escapes."""


class RepeatedAnswers:
    """The latest requests and their answers, by the names that clients gave the requests."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, asyncio.Task[Response]] = OrderedDict()
        self._sizes_bytes: dict[str, int] = {}
        """The size of each remembered answer that is there."""

    async def answer(
        self, name: str | None, answering: Callable[[], Coroutine[Any, Any, Response]]
    ) -> Response:
        """Return the answer to a request: that of the earlier request with this name, if it is known.

        Raises ClientDisconnect if the request did not come as a whole. A cancelled caller does not end the
        work: a client that disconnects and asks again finds it done.
        """
        if name is None:
            return await answering()
        while (known := self._answers.get(name)) is not None:
            with suppress(ClientDisconnect):
                return await asyncio.shield(known)
            if self._answers.get(name) is known:
                # It has ended in this turn of the loop, and its callback comes in the next.
                self._forget(name)
        known = self._answers[name] = asyncio.create_task(answering())
        known.add_done_callback(partial(self._answered, name))
        if len(self._answers) > REMEMBERED:
            self._forget(next(iter(self._answers)))
        return await asyncio.shield(known)

    def _answered(self, name: str, answer: asyncio.Task[Response]) -> None:
        if self._answers.get(name) is not answer:
            return
        if answer.cancelled() or isinstance(answer.exception(), ClientDisconnect):
            # It did not come as a whole: nothing was done, so its repetition counts.
            del self._answers[name]
            return
        if answer.exception() is not None:
            return
        self._sizes_bytes[name] = len(answer.result().body)
        excess_bytes = sum(self._sizes_bytes.values()) - REMEMBERED_BYTES
        for other in [each for each in self._answers if each in self._sizes_bytes and each != name]:
            if excess_bytes <= 0:
                break
            excess_bytes -= self._sizes_bytes[other]
            self._forget(other)

    def _forget(self, name: str) -> None:
        del self._answers[name]
        self._sizes_bytes.pop(name, None)
