"""The HTTP protocol of SWE-ReX in front of a workspace, for clients that are not changed; see `swerex`.

The key of SWE-ReX, in `X-API-Key`, is the token that Paddock's listener asks for. A request that is repeated
with the same `X-Request-ID` is not carried out again.
"""

from __future__ import annotations

import asyncio
import errno
import posixpath
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import IO, Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from swerex.exceptions import SwerexException
from swerex.runtime.abstract import (
    Action,
    CloseSessionRequest,
    Command,
    CreateSessionRequest,
    ReadFileRequest,
    UploadResponse,
    WriteFileRequest,
)

from paddock.adapters.repeated_answers import RepeatedAnswers
from paddock.adapters.swerex import PaddockRuntime
from paddock.errors import PaddockError
from paddock.server.asgi import Message, Receive, Scope, Send, headers_of, refusal_of, refuse
from paddock.server.http_listener import HttpListener
from paddock.transport.http import Headers

KEY_HEADER: Final = "x-api-key"
REQUEST_HEADER: Final = "x-request-id"

BODY_BYTES: Final = 64 * 1024 * 1024
"""The largest request in JSON, which holds at most a whole file."""

UPLOAD_BYTES: Final = 1024 * 1024 * 1024
"""The largest upload, packed or unpacked. It waits in a temporary file."""

RAISED: Final = 511
"""The status that tells a client to raise the error in the answer."""

Answering = Callable[[Any], Awaitable[BaseModel]]


class TooLarge(Exception):
    """The body of a request is too large."""


class SwerexApplication:
    """Answers for one runtime, as an ASGI application."""

    def __init__(self, runtime: PaddockRuntime, listener: HttpListener) -> None:
        self._runtime = runtime
        self._listener = listener
        self._answers = RepeatedAnswers()
        self._calls: dict[str, tuple[TypeAdapter[Any], Answering]] = {
            "/create_session": (TypeAdapter(CreateSessionRequest), runtime.create_session),
            "/run_in_session": (TypeAdapter(Action), runtime.run_in_session),
            "/close_session": (TypeAdapter(CloseSessionRequest), runtime.close_session),
            "/execute": (TypeAdapter(Command), runtime.execute),
            "/read_file": (TypeAdapter(ReadFileRequest), runtime.read_file),
            "/write_file": (TypeAdapter(WriteFileRequest), runtime.write_file),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = headers_of(scope)
        request_filter = self._listener.request_filter
        if request_filter.credential is not None and headers.get(KEY_HEADER) is None:
            await JSONResponse({"detail": "Not authenticated"}, 403)(scope, receive, send)
            return
        refusal = refusal_of(request_filter, scope["method"], _with_token(headers))
        if refusal is not None:
            await refuse(refusal, send)
            return
        limit_bytes = UPLOAD_BYTES if scope["path"] == "/upload" else BODY_BYTES
        request = Request(scope, _limited(receive, limit_bytes))
        with suppress(ClientDisconnect):
            answering = partial(self._answer, request)
            response = await self._answers.answer(headers.get(REQUEST_HEADER), answering)
            await response(scope, receive, send)

    async def _answer(self, request: Request) -> JSONResponse:
        try:
            return await self._answered(request)
        except ValidationError as error:
            return JSONResponse({"detail": error.errors(include_url=False, include_context=False)}, 422)
        except TooLarge:
            return JSONResponse({"detail": "the request is too large"}, 413)
        except ClientDisconnect:
            raise
        except Exception as error:
            return _raised(error)

    async def _answered(self, request: Request) -> JSONResponse:
        match request.method, request.url.path:
            case "GET", "/":
                return JSONResponse({"message": "hello world"})
            case "GET", "/is_alive":
                return JSONResponse((await self._runtime.is_alive()).model_dump())
            case "POST", "/close":
                return JSONResponse((await self._runtime.close()).model_dump())
            case "POST", "/upload":
                return await self._upload(request)
            case "POST", path if path in self._calls:
                kind, call = self._calls[path]
                return JSONResponse((await call(kind.validate_json(await request.body()))).model_dump())
            case _:
                return JSONResponse({"detail": "Not Found"}, 404)

    async def _upload(self, request: Request) -> JSONResponse:
        async with request.form() as form:
            file, target = form["file"], str(form["target_path"])
            assert not isinstance(file, str)
            if str(form.get("unzip", "false")).lower() in ("true", "1"):
                for name, size, member in await asyncio.to_thread(_members, file.file):
                    data = await asyncio.to_thread(member.read, size)
                    await self._runtime.write_bytes(posixpath.join(target, name), data)
            else:
                await self._runtime.write_bytes(target, await file.read())
        return JSONResponse(UploadResponse().model_dump())


def _members(archive: IO[bytes]) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Return the files of an archive, once all of them are known to be small enough and to stay inside."""
    opened = zipfile.ZipFile(archive)
    files = [each for each in opened.infolist() if not each.is_dir()]
    if sum(each.file_size for each in files) > UPLOAD_BYTES:
        raise TooLarge
    for each in files:
        if posixpath.isabs(each.filename) or ".." in each.filename.split("/"):
            raise ValueError(f"{each.filename!r} leads out of the archive")
    return ((each.filename, each.file_size, opened.open(each)) for each in files)


def _limited(receive: Receive, limit_bytes: int) -> Receive:
    count_bytes = 0

    async def counting() -> Message:
        nonlocal count_bytes
        message = await receive()
        count_bytes += len(message.get("body", b""))
        if count_bytes > limit_bytes:
            raise TooLarge
        return message

    return counting


def _with_token(headers: Headers) -> Headers:
    """Return headers in which the key of SWE-ReX is the bearer token."""
    key = headers.get(KEY_HEADER)
    kept = [(name, value) for name, value in headers.items() if name.lower() != "authorization"]
    return Headers(kept if key is None else [*kept, ("Authorization", f"Bearer {key}")])


def _raised(error: Exception) -> JSONResponse:
    """Return an answer that makes a client raise the same error; it knows those of Python and of SWE-ReX."""
    kind = type(error)
    if isinstance(error, OSError) and error.errno is not None:
        kind = type(OSError(error.errno, ""))
    elif isinstance(error, PaddockError) or kind.__module__ not in ("builtins", "swerex.exceptions"):
        kind = SwerexException
    transfer = {
        "message": _message(error),
        "class_path": f"{kind.__module__}.{kind.__name__}",
        "traceback": "",
        "extra_info": getattr(error, "extra_info", {}),
    }
    return JSONResponse({"swerexception": transfer}, RAISED)


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in errno.errorcode:
        return error.strerror or str(error)
    return str(error)
