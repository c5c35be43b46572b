"""Checks a request before anything is sent.

A header may be completed from the server's environment, so that a client can use
a credential without knowing it. This module decides which variables never leave this
way. It sends nothing and reads no environment: the caller supplies one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from msgspec import Struct

from paddock.errors import InvalidParams

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

PROTECTED_VARIABLES = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "CODEX_ACCESS_TOKEN",
        "CODEX_API_KEY",
        "CODEX_CONNECTORS_TOKEN",
        "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "NODE_REPL_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "OPENAI_FEDERATION_RULE_ID",
        "OPENAI_IDENTITY_TOKEN_FILE",
        "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
        "PADDOCK_TOKEN",
    }
)
"""Credentials of the host itself. No header ever gets one, in whatever case its name is written."""


class Header(Struct, frozen=True):
    """A header to send. After a redirect, a secret one does not go to another origin."""

    name: str
    value: bytes
    is_secret: bool = False


class FetchRequest(Struct, frozen=True):
    """One request. `timeout_s` covers everything, including the body of the answer.

    Raises InvalidParams if its headers misstate the length of its body: every reader must
    agree where a request ends.
    """

    method: str
    url: str
    headers: tuple[Header, ...] = ()
    body: bytes | None = None
    timeout_s: float | None = None
    follows_redirects: bool = True

    def __post_init__(self) -> None:
        size = b"%d" % len(self.body or b"")
        for header in self.headers:
            name = header.name.lower()
            if name == "transfer-encoding" or (name == "content-length" and header.value != size):
                raise InvalidParams(
                    f"http/request header {header.name} does not fit the body, which has {size.decode()} "
                    "bytes and is sent as it is; leave the header out"
                )


def check_method(method: str) -> str:
    """Return the method unchanged. Raises InvalidParams unless it is a token (RFC 9110, section 5.6.2)."""
    if _TOKEN.fullmatch(method) is None:
        raise InvalidParams(f"http/request method is invalid: {method!r} is not an HTTP method")
    return method


def make_header(
    name: str,
    value: str,
    variable: str | None,
    environment: Mapping[str, str],
    secret_variables: Collection[str] = (),
) -> Header:
    """Make a header, with the value of `variable` after `value` if one is named. Raises InvalidParams.

    The settings declare for which hosts `secret_variables` are; no header gets one.
    """
    if _TOKEN.fullmatch(name) is None:
        raise InvalidParams(f"http/request header name is invalid: {name!r} is not an HTTP header name")
    if variable is not None and variable in secret_variables:
        raise InvalidParams(
            f"http/request header {name} cannot use executor environment variable {variable}: "
            "it is a secret of the settings, which only the proxy of a sandbox sends"
        )
    text = value if variable is None else value + _looked_up(name, variable, environment)
    # Never show it: it may hold a credential.
    data = text.encode("utf-8", "surrogateescape")
    if _VALUE.fullmatch(data) is None:
        raise InvalidParams(f"http/request header value is invalid for {name}: it holds control characters")
    return Header(name, data.strip(), is_secret=variable is not None)


def _looked_up(name: str, variable: str, environment: Mapping[str, str]) -> str:
    if variable.upper() in PROTECTED_VARIABLES:
        raise InvalidParams(
            f"http/request header {name} cannot use executor environment variable {variable}: "
            "it is a credential of the host itself"
        )
    found = environment.get(variable)
    if found is None:
        raise InvalidParams(
            f"http/request header {name} requires executor environment variable {variable}, which is not set"
        )
    if not found.strip():
        raise InvalidParams(
            f"http/request header {name} requires a non-empty executor environment variable {variable}"
        )
    return found
