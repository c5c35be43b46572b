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
"""Where a command finds whom to trust. Every sandbox has a /dev/shm of its own, and it is mounted there."""

TEMPLATE_MARK: Final = "{}"

_HEADER_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VARIABLE: Final = r"[^=\0]+"

_UNUSABLE_HEADERS: Final = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"),
        *("keep-alive", "proxy-authorization", "proxy-connection", "expect"),
    )
)
"""They say how a message is read or where it goes, and not who sends it."""


class Scheme(StrEnum):
    """What a request is sent over."""

    HTTP = "http"
    HTTPS = "https"

    @property
    def port(self) -> int:
        """Return the port that need not be written."""
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
        """Return whether a normal host is meant, on this port."""
        wanted = self.scheme.port if self.pattern.port is None else self.pattern.port
        return scheme is self.scheme and port == wanted and self.pattern.has_host(host)


class NetworkSecret(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a secret comes from, what it becomes, and who may get it."""

    hosts: Annotated[tuple[str, ...], Meta(min_length=1, max_length=256)]
    """Who may get it: `https://HOST` or `http://HOST`, with `:PORT` for another port than 443 or 80, and
    `*.HOST` or `**.HOST` as in a profile. For `https` the proxy opens TLS, with an authority that only
    the command trusts."""
    file: str | None = None
    """The file that has it, by its absolute path; white space around it does not count."""
    variable: str | None = None
    """The variable of the server that has it, in place of the file."""
    header: str | None = None
    """The header that it becomes; `Authorization` if nothing is said."""
    template: str = TEMPLATE_MARK
    """The value of the header, with `{}` for the secret: `Bearer {}`."""
    basic_user: str | None = None
    """The user whose password it is, in place of `header` and `template`."""

    def __post_init__(self) -> None:
        # No error repeats what may be the secret itself, in the wrong place.
        for host in self.hosts:
            SecretHost.parse(host)
        if (self.file is None) is (self.variable is None):
            raise ValueError("a secret needs either file or variable")
        if self.file is not None and not self.file.startswith("/"):
            raise ValueError("the file of a secret is not absolute; write it from the root")
        if self.variable is not None and not re.fullmatch(_VARIABLE, self.variable):
            raise ValueError("the variable of a secret is no name of a variable")
        if self.basic_user is not None and (self.header is not None or self.template != TEMPLATE_MARK):
            raise ValueError("basic_user of a secret is a header already; leave header and template out")
        if self.basic_user is not None and (":" in self.basic_user or not self.basic_user.isprintable()):
            raise ValueError("basic_user of a secret can't have a colon or a control character in it")
        if self.header is not None and not re.fullmatch(_HEADER_NAME, self.header):
            raise ValueError("the header of a secret is no name of a header")
        if (self.header or "").lower() in _UNUSABLE_HEADERS:
            raise ValueError(f"the header {self.header!r} says how a message is read; it can't be a secret")
        is_plain = self.template.isascii() and self.template.isprintable()
        if self.template.count(TEMPLATE_MARK) != 1 or not is_plain:
            raise ValueError("the template of a secret needs one {}, and ASCII around it")
