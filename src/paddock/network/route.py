"""The way of a command to its proxy: constant ports of its loopback, and the variables that name them. Pure.

The network namespace of a command has nothing in it but what Paddock listens on, so the ports are always free
and never need to change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

HTTP_PORT: Final = 3128
SOCKS_PORT: Final = 1080
PORTS: Final = (HTTP_PORT, SOCKS_PORT)

HTTP_URL: Final = f"http://127.0.0.1:{HTTP_PORT}"
SOCKS_URL: Final = f"socks5h://127.0.0.1:{SOCKS_PORT}"
"""The `h` leaves it to the proxy to find the address of a name."""

HTTP_VARIABLES: Final = (
    *("HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY"),
    *("YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"),
    *("NPM_CONFIG_HTTP_PROXY", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_PROXY"),
    *("BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "PIP_PROXY"),
    *("DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY"),
)
SOCKS_VARIABLES: Final = ("ALL_PROXY", "FTP_PROXY")
VARIABLES: Final = (*HTTP_VARIABLES, *SOCKS_VARIABLES)
"""The variables by which programs find a proxy, in upper case; lower case means the same."""

EXEMPT_VARIABLES: Final = ("NO_PROXY", "NPM_CONFIG_NOPROXY")
"""Hosts that programs would not use a proxy for."""

OWN_SERVERS: Final = "localhost,127.0.0.1,::1"
"""The hosts that a command reaches without a proxy: its own servers."""

SWITCHES: Final = {"NODE_USE_ENV_PROXY": "1", "ELECTRON_GET_USE_PROXY": "true"}
"""Programs that look at the variables only if told to."""


def proxied_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a command that uses our proxy, replacing any earlier proxy settings."""
    kept = {
        name: value
        for name, value in environment.items()
        if name.upper() not in (*VARIABLES, *EXEMPT_VARIABLES, *SWITCHES)
    }
    return {**kept, **dict(_proxy_variables()), **SWITCHES}


def _proxy_variables() -> Iterator[tuple[str, str]]:
    for names, value in (
        (HTTP_VARIABLES, HTTP_URL),
        (SOCKS_VARIABLES, SOCKS_URL),
        (EXEMPT_VARIABLES, OWN_SERVERS),
    ):
        for name in names:
            yield name, value
            yield name.lower(), value


TRUST_VARIABLES: Final = (
    *("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT"),
    *("GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "NPM_CONFIG_CAFILE", "npm_config_cafile"),
    *("YARN_HTTPS_CA_FILE_PATH", "DENO_CERT", "CARGO_HTTP_CAINFO", "BUNDLE_SSL_CA_CERT"),
    *("AWS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
    *("NIX_SSL_CERT_FILE", "HEX_CACERTS_PATH", "PERL_LWP_SSL_CA_FILE"),
)
"""The variables by which programs find the authorities to trust; each program has its own."""


def trusting_environment(environment: Mapping[str, str], bundle_path: str) -> dict[str, str]:
    """Return the variables of a command that trusts a file of authorities, replacing any earlier setting."""
    return {**environment, **dict.fromkeys(TRUST_VARIABLES, bundle_path)}


# --- a proxy that somebody else runs ----------------------------------------

LOOPBACK_HOSTS: Final = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
DEFAULT_SOCKS_PORT: Final = 1080
FIRST_MANAGED_PORT: Final = HTTP_PORT
"""The proxies that the variables name get this port and those after it, in the order of their first names."""


class ManagedRoute(Struct, frozen=True):
    """A command's way to proxies on the host's loopback."""

    environment: dict[str, str]
    """The command's environment; its variables name ports of its own loopback."""
    endpoints: dict[int, tuple[str, int]]
    """What each of those ports stands for: an address and a port of the host."""


def managed_route(environment: Mapping[str, str], permitted: Collection[int] | None) -> ManagedRoute:
    """Lead a command to the proxies that its variables name, on `permitted` ports if only some are.

    Raises ValueError when no variable names a proxy, or one names another than that.
    """
    ports: dict[tuple[str, int], int] = {}
    changed = {}
    for name, value in environment.items():
        if name.upper() not in VARIABLES or not value:
            continue
        parts = _proxy_parts(name, value)
        endpoint = LOOPBACK_HOSTS[(parts.hostname or "").lower()], _port(parts, name)
        if permitted is not None and endpoint[1] not in permitted:
            raise ValueError(f"{name} names the port {endpoint[1]}, which is not among loopbackPorts")
        inner = ports.setdefault(endpoint, FIRST_MANAGED_PORT + len(ports))
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        rewritten = parts._replace(netloc=f"{user}127.0.0.1:{inner}").geturl()
        changed[name] = rewritten if "://" in value else rewritten.removeprefix("http://")
    if not ports:
        raise ValueError("a managed network needs proxy variables such as HTTP_PROXY, and there are none")
    return ManagedRoute({**environment, **changed}, {inner: endpoint for endpoint, inner in ports.items()})


def _proxy_parts(name: str, value: str) -> SplitResult:
    # The value may hold a password, so the error does not show it.
    flaw = ValueError(f"a managed network needs proxies on the loopback, and {name} names none")
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
    except ValueError:
        raise flaw from None
    if (parts.hostname or "").lower() not in LOOPBACK_HOSTS:
        raise flaw
    return parts


def _port(parts: SplitResult, name: str) -> int:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port is None:
        is_socks = parts.scheme.startswith("socks")
        port = DEFAULT_SOCKS_PORT if is_socks else DEFAULT_PORTS.get(parts.scheme, 0)
    if port == 0:
        raise ValueError(f"a managed network needs proxies with a port, and {name} names none")
    return port
