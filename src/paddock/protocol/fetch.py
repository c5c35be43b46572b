"""`http/request`: an HTTP request that is made from the executor's host."""

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
    """Its value, or what stands before that of the variable."""
    value_env_var: Name | None = None
    """A variable of the server's environment; those with the host's own credentials are refused."""


class HttpRequestParams(Params, frozen=True, kw_only=True):
    """An HTTP request made from the executor's host."""

    method: Name
    """The HTTP method, in the case in which it is sent."""
    url: Url
    """An `http` or `https` URL."""
    request_id: Name
    """Names the stream of the body; it is free again after the last piece."""
    headers: Annotated[list[HttpHeader], Meta(max_length=MAX_HEADERS)] = []
    """Sent in this order, repeats kept. `Accept: */*` is added if there is no `Accept`."""
    body_base64: bytes | None = None
    """The body."""
    timeout_ms: Unsigned | None = None
    """Time for everything, the body of the answer included; by default there is no limit."""
    redirect_policy: Literal["follow", "stop"] | None = None
    """Whether redirects are followed, which is the default, at most 10 of them."""
    stream_response: bool = False
    """Whether the body follows the answer as `http/request/bodyDelta`."""


class ResponseHeader(Result, frozen=True, kw_only=True):
    """A header of an answer."""

    name: str
    """Its name in lower case."""
    value: str
    """Its value; bytes that are not UTF-8 are read as Latin-1."""


class HttpResult(Result, frozen=True, kw_only=True):
    """The answer to an HTTP request, whatever its status."""

    status: int
    """The HTTP status."""
    headers: list[ResponseHeader]
    """In the order of arrival, repeats kept."""
    body_base64: bytes
    """The body as it came, not decompressed; empty when it is streamed."""


class BodyDelta(Result, frozen=True, kw_only=True):
    """A piece of a streamed body, of 1 MiB at most. The last is empty, and says whether the body is whole."""

    request_id: str
    """The request that it answers."""
    seq: int
    """Counts the pieces from 1, without gaps."""
    delta_base64: bytes
    """The piece."""
    done: bool
    """Whether this is the last."""
    error: str | None
    """Why the body is not whole, if it isn't."""
