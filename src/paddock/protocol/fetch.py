"""`http/request`: an HTTP request that the executor's host makes."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from paddock.protocol.bound import MAX_HEADERS, Name, Url
from paddock.protocol.structure import Params, Result, Unsigned


class HttpHeader(Params, frozen=True, kw_only=True):
    """A header; its value may be completed from a variable of the server's environment."""

    name: Name
    """Its name, in any case."""
    value: str
    """Its value, or the text before that of the variable."""
    value_env_var: Name | None = None
    """A variable of the server's environment; the server refuses those with the host's own credentials."""


class HttpRequestParams(Params, frozen=True, kw_only=True):
    """An HTTP request made from the executor's host."""

    method: Name
    """The HTTP method; the server keeps its case."""
    url: Url
    """An `http` or `https` URL."""
    request_id: Name
    """Names the stream of the body; the client may use it again after the last piece."""
    headers: Annotated[list[HttpHeader], Meta(max_length=MAX_HEADERS)] = []
    """Sent in this order, with repeats. The server adds `Accept: */*` if there is no `Accept`."""
    body_base64: bytes | None = None
    """The body."""
    timeout_ms: Unsigned | None = None
    """Time for everything, including the body of the answer; unlimited by default."""
    redirect_policy: Literal["follow", "stop"] | None = None
    """Whether to follow redirects, at most 10 of them. The default is to follow."""
    stream_response: bool = False
    """Whether to send the body after the answer, as `http/request/bodyDelta`."""


class ResponseHeader(Result, frozen=True, kw_only=True):
    """A header of an answer."""

    name: str
    """Its name in lower case."""
    value: str
    """Its value; a value that is not UTF-8 is read as Latin-1."""


class HttpResult(Result, frozen=True, kw_only=True):
    """The answer to an HTTP request, whatever its status."""

    status: int
    """The HTTP status."""
    headers: list[ResponseHeader]
    """In the order of arrival, repeats kept."""
    body_base64: bytes
    """The body as received, not decompressed; empty if it is streamed."""


class BodyDelta(Result, frozen=True, kw_only=True):
    """A piece of a streamed body, at most 1 MiB. The last is empty, and says whether the body is complete."""

    request_id: str
    """The request that it belongs to."""
    seq: int
    """Counts the pieces from 1, without gaps."""
    delta_base64: bytes
    """The piece."""
    done: bool
    """Whether this is the last."""
    error: str | None
    """Why the body is incomplete; absent if it is complete."""
