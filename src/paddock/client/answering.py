"""Answers the server's questions with the caller's functions.

Each question is answered once, in a task of its own, however often the connection is lost in the meantime: an
answer that finds no link waits for the next one, on which the server asks again. The client cancels a
function when the server no longer needs its answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from paddock.errors import MethodNotFound, OperationFailed, RequestError
from paddock.protocol.envelope import RequestId
from paddock.protocol.methods import SERVER_REQUESTS
from paddock.protocol.question import QuestionParams
from paddock.protocol.structure import Params
from paddock.rpc.calling import Asked, answer, refuse
from paddock.rpc.received import Arrival, ReceivedQuestions

log = logging.getLogger(__name__)

CANCEL_TIMEOUT_S: Final = 5.0
"""How long handlers may take to clean up when their box is closed."""

RequestHandler = Callable[[Any], Any]
"""Takes the parameters of a request from the server; returns its result, or an awaitable of it."""

Send = Callable[[bytes], None]
"""Sends a message on the current link."""


class Answering:
    """The tasks that answer questions. The connection reports changes of link and session; call `aclose` at
    the end."""

    def __init__(self, handlers: Mapping[str, RequestHandler], send: Send) -> None:
        unknown = sorted(handlers.keys() - SERVER_REQUESTS.keys())
        if unknown:
            known = ", ".join(SERVER_REQUESTS)
            raise ValueError(f"servers never ask {', '.join(map(repr, unknown))}; they ask {known}")
        self._handlers = dict(handlers)
        self._send = send
        self._questions: ReceivedQuestions[Params | RequestError] = ReceivedQuestions()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def methods(self) -> list[str]:
        """Return the requests that have a handler."""
        return list(self._handlers)

    def asked(self, request: Asked) -> None:
        """Take a question from the server, possibly one that it asks again."""
        question_id = request.params.question_id
        handler = self._handlers.get(request.method)
        if handler is None:
            self._reply(request.id, MethodNotFound(f"this client does not answer {request.method!r}"))
            return
        known = self._questions.answer_to(question_id)
        if known is not None:
            self._reply(request.id, known)
            return
        match self._questions.asked(question_id, request.id):
            case Arrival.ANSWER:
                task = asyncio.get_running_loop().create_task(self._answer(handler, request))
                self._tasks[question_id] = task
                task.add_done_callback(partial(self._ended, question_id))
            case Arrival.REFUSE:
                self._reply(request.id, OperationFailed("too many questions for this client at once"))
            case Arrival.WAIT:
                pass

    def closed(self, question_id: str) -> None:
        """Cancel the function that answers a question: the server no longer needs the answer."""
        self._questions.closed(question_id)
        self._cancel(question_id)

    def cut(self) -> None:
        """Note that the link is lost; the session may come back on another."""
        self._questions.cut()

    def lose_session(self) -> None:
        """Drop every question, because the session no longer exists."""
        self._questions.clear()
        for question_id in list(self._tasks):
            self._cancel(question_id)

    async def aclose(self) -> None:
        """Cancel every handler and wait for them, at most `CANCEL_TIMEOUT_S`."""
        self.lose_session()
        if self._ending:
            _, left = await asyncio.wait(self._ending, timeout=CANCEL_TIMEOUT_S)
            if left:
                log.warning("%d request handlers do not end although they were cancelled", len(left))

    # --- inside -------------------------------------------------------------

    async def _answer(self, handler: RequestHandler, request: Asked) -> None:
        outcome = await _outcome(handler, request.method, request.params)
        self._settle(request.params.question_id, outcome)

    def _settle(self, question_id: str, outcome: Params | RequestError) -> None:
        request_id = self._questions.settled(question_id, outcome)
        if request_id is not None:
            self._reply(request_id, outcome)

    def _reply(self, request_id: RequestId, outcome: Params | RequestError) -> None:
        if isinstance(outcome, RequestError):
            self._send(refuse(request_id, outcome))
            return
        try:
            self._send(answer(request_id, outcome))
        except UnicodeEncodeError:
            self._send(
                refuse(request_id, OperationFailed("the client's answer holds text that is not UTF-8"))
            )

    def _cancel(self, question_id: str) -> None:
        task = self._tasks.pop(question_id, None)
        if task is not None:
            self._ending.add(task)
            task.cancel()

    def _ended(self, question_id: str, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if self._tasks.get(question_id) is task:
            del self._tasks[question_id]
            if task.cancelled():
                # Something other than the server cancelled it, and the server must not wait for ever.
                self._settle(question_id, OperationFailed("the client's handler was cancelled"))


async def _outcome(handler: RequestHandler, method: str, params: QuestionParams) -> Params | RequestError:
    """Return a handler's result, or the error to answer with. The details of the error go only to the log."""
    try:
        result = handler(params)
        if isinstance(result, Awaitable):
            result = await result
    except RequestError as error:
        return error
    except Exception:
        log.exception("the handler of %s failed", method)
        return OperationFailed(f"the client's handler of {method} failed; see its log")
    kind = SERVER_REQUESTS[method].result
    if not isinstance(result, kind):
        log.error("the handler of %s gave %r, and not a %s", method, result, kind.__name__)
        return OperationFailed(f"the client's handler of {method} gave no {kind.__name__}")
    return result
