"""The hosts that a user lets a command reach: flags on top of a profile."""

from __future__ import annotations

from paddock.errors import InvalidProfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from paddock.model.profile import Network, Profile
    from paddock.sandbox.profile.table import WrittenProfile

HOST_FORMS = "HOST, *.HOST for the names below it, **.HOST for both; with :PORT or :* for other ports"


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """Let the user name hosts, besides those of the profile."""
    parser.add_argument(
        "--allow-host",
        metavar="HOST",
        action="append",
        default=[],
        help=f"let it reach a host, through a proxy of Paddock's that reaches no other: {HOST_FORMS} than 80 "
        "and 443; may be repeated",
    )
    parser.add_argument(
        "--allow-group",
        metavar="GROUP",
        action="append",
        default=[],
        help="the same for the hosts of an ecosystem (`paddock network groups`); may be repeated",
    )
    parser.add_argument(
        "--deny-host",
        metavar="HOST",
        action="append",
        default=[],
        help="keep it from a host, whatever else is allowed; may be repeated",
    )
    parser.add_argument(
        "--allow-local",
        action="store_true",
        help="let allowed hosts have a loopback or private address too",
    )


def add_secret_option(parser: argparse.ArgumentParser) -> None:
    """Let the user name secrets of the server."""
    parser.add_argument(
        "--secret",
        metavar="NAME",
        action="append",
        default=[],
        help="let the proxy add a secret of the server's settings (network_secrets) to requests for its "
        "hosts; the command never sees it; may be repeated",
    )


def has_network_options(arguments: argparse.Namespace) -> bool:
    """Return whether the user has named any."""
    named = arguments.allow_host or arguments.allow_group or arguments.deny_host
    return bool(named or arguments.allow_local or secrets_in(arguments))


def secrets_in(arguments: argparse.Namespace) -> list[str]:
    """Return the secrets that the user names, where that is possible."""
    named: list[str] = getattr(arguments, "secret", [])
    return named


def with_network(written: WrittenProfile, arguments: argparse.Namespace) -> WrittenProfile:
    """Return the profile with the hosts that the user names. Raises InvalidProfile."""
    if not has_network_options(arguments):
        return written
    from msgspec.structs import replace

    return replace(written, profile=_with_hosts(written.profile, arguments))


def named_profile(name: str) -> WrittenProfile:
    """Return a profile that is built in, for flags are written into it. Raises InvalidProfile."""
    from paddock.sandbox.profile.table import BUILT_IN_NAMES, WrittenProfile, built_in

    if name not in BUILT_IN_NAMES:
        raise InvalidProfile(
            name, "only the server knows it; hosts can be added to a built-in profile, a file or JSON"
        )
    return WrittenProfile(built_in(name))


def _with_hosts(profile: Profile, arguments: argparse.Namespace) -> Profile:
    from msgspec.structs import replace

    from paddock.sandbox.profile.enforced import is_enforced

    if not is_enforced(profile):
        raise InvalidProfile("the profile", "confines nothing, so hosts can't be chosen under it")
    try:
        return replace(profile, network=_network(profile.network, arguments))
    except ValueError as error:
        raise InvalidProfile("the command line", str(error)) from error


def _network(network: Network, arguments: argparse.Namespace) -> Network:
    from paddock.model.profile import GROUP_MARK, ProxiedNetwork

    known = network if isinstance(network, ProxiedNetwork) else ProxiedNetwork()
    groups = (f"{GROUP_MARK}{name}" for name in arguments.allow_group)
    return ProxiedNetwork(
        allow=(*known.allow, *arguments.allow_host, *groups),
        deny=(*known.deny, *arguments.deny_host),
        allow_local=known.allow_local or arguments.allow_local,
        upstream=known.upstream,
        secrets=(*known.secrets, *secrets_in(arguments)),
        rules=known.rules,
    )
