"""What plain HTTP requests get: health checks, and refusals of what is not ours to serve."""

from __future__ import annotations

from paddock.transport.http import HttpRequest, HttpResponse

WEBSOCKET_PATH = "/"
HEALTH_PATHS = ("/healthz", "/readyz")


def answer(request: HttpRequest) -> HttpResponse | None:
    """The answer to a request, or None to go on with the websocket upgrade."""
    # Only browsers send Origin: a web page must not reach a server on the user's loopback.
    if "Origin" in request.headers:
        return HttpResponse(status=403, body=b"requests from web pages (with an Origin header) are refused\n")
    if request.path in HEALTH_PATHS:
        return HttpResponse(status=200, body=b"ok\n")
    if request.path != WEBSOCKET_PATH:
        return HttpResponse(
            status=404, body=b"the websocket is at /, health checks are at /healthz and /readyz\n"
        )
    return None
