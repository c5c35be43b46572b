"""A secret that the policy proxy adds to requests, as the settings of a server declare it. Values. Pure.

The value itself is not here: it stays in its file or variable until a command needs it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from paddock.model.host_pattern import HostPattern

BUNDLE_PATH: Final = "/dev/shm/paddock-ca.pem"
"""Where a command finds the certificates to trust: mounted in the sandbox's own /dev/shm."""

TEMPLATE_MARK: Final = "{}"

_HEADER_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VARIABLE: Final = r"[^=\0]+"

_UNUSABLE_HEADERS: Final = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"),
        *("keep-alive", "proxy-authorization", "proxy-connection", "expect"),
    )
)
"""These headers say how to read a message or where it goes, not who sends it."""


class Scheme(StrEnum):
    """The scheme of a request's URL."""

    HTTP = "http"
    HTTPS = "https"

    @property
    def port(self) -> int:
        """Return the default port of the scheme."""
        return 80 if self is Scheme.HTTP else 443


class SecretHost(Struct, frozen=True):
    """Hosts that may get a secret, over one scheme."""

    scheme: Scheme
    pattern: HostPattern

    @classmethod
    def parse(cls, text: str) -> SecretHost:
        """Read `http://HOST[:PORT]` or `https://HOST[:PORT]`. Raises ValueError."""
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in tuple(Scheme):
            raise ValueError(
                f"the host {text!r} of a secret has no scheme; write https://{rest or text}, for which the"
                f" proxy opens TLS, or http://{rest or text}"
            )
        pattern = HostPattern.parse(rest)
        if pattern.is_for_all or pattern.has_any_port:
            raise ValueError(
                f"the host {text!r} of a secret leaves open who gets it; name the host and the port"
            )
        return cls(Scheme(scheme), pattern)

    def has(self, scheme: Scheme, host: str, port: int) -> bool:
        """Return whether the secret is for a host in normal form, on this port."""
        wanted = self.scheme.port if self.pattern.port is None else self.pattern.port
        return scheme is self.scheme and port == wanted and self.pattern.has_host(host)


class NetworkSecret(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source of a secret, the header it becomes, and the hosts that may receive it."""

    hosts: Annotated[tuple[str, ...], Meta(min_length=1, max_length=256)]
    """Hosts that may receive it: `https://HOST` or `http://HOST`, with `:PORT` for a port other than 443 or
    80, and `*.HOST` or `**.HOST` as in a profile. For `https` the proxy opens TLS, with an authority that
    only the command trusts."""
    file: str | None = None
    """The absolute path of the file with the secret; white space around the secret does not count."""
    variable: str | None = None
    """The server's environment variable with the secret, in place of the file."""
    header: str | None = None
    """The header that the proxy adds; `Authorization` by default."""
    template: str = TEMPLATE_MARK
    """The value of the header, with `{}` for the secret: `Bearer {}`."""
    basic_user: str | None = None
    """The user whose password it is, in place of `header` and `template`."""

    def __post_init__(self) -> None:
        # No error repeats a value: it may be the secret itself, written in the wrong place.
        for host in self.hosts:
            SecretHost.parse(host)
        if (self.file is None) is (self.variable is None):
            raise ValueError("a secret needs either file or variable")
        if self.file is not None and not self.file.startswith("/"):
            raise ValueError("the file of a secret is not absolute; write it from the root")
        if self.variable is not None and not re.fullmatch(_VARIABLE, self.variable):
            raise ValueError("the variable of a secret is not a variable name")
        if self.basic_user is not None and (self.header is not None or self.template != TEMPLATE_MARK):
            raise ValueError("basic_user of a secret is a header already; leave header and template out")
        if self.basic_user is not None and (":" in self.basic_user or not self.basic_user.isprintable()):
            raise ValueError("basic_user of a secret can't have a colon or a control character in it")
        if self.header is not None and not re.fullmatch(_HEADER_NAME, self.header):
            raise ValueError("the header of a secret is not a header name")
        if (self.header or "").lower() in _UNUSABLE_HEADERS:
            raise ValueError(f"the header {self.header!r} says how a message is read; it can't be a secret")
        is_plain = self.template.isascii() and self.template.isprintable()
        if self.template.count(TEMPLATE_MARK) != 1 or not is_plain:
            raise ValueError("the template of a secret needs one {}, and ASCII around it")
