"""The secrets that a profile names, as the settings declare them: read for the proxy of one process.

This module keeps none of them, and no error reveals more of one than its name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from paddock.config import Settings
from paddock.errors import SecretUnusable
from paddock.model.network_secret import NetworkSecret, Scheme, SecretHost
from paddock.model.profile import ProxiedNetwork
from paddock.network.credential import VALUE_LIMIT_BYTES, Credentials, make_credential
from paddock.network.gateway import Secrets

if TYPE_CHECKING:
    from paddock.network.authority import Authority
    from paddock.server.session import Session


def secrets_of(
    network: ProxiedNetwork, cap: ProxiedNetwork | None, is_capped: bool, settings: Settings, session: Session
) -> Secrets | None:
    """Read the secrets that a profile names; return None if it names none.

    If it `is_capped`, it may name only secrets that the `cap` names. Raises ValueError, or SecretUnusable.
    """
    if not network.secrets:
        return None
    for name in network.secrets:
        if name not in settings.network_secrets:
            raise ValueError(
                f"there is no secret {name!r}; the settings of a server declare them as network_secrets"
            )
        if is_capped and (cap is None or name not in cap.secrets):
            raise ValueError(f"the profile that caps requests does not name the secret {name!r}")
    declared = {name: settings.network_secrets[name] for name in network.secrets}
    if network.upstream is not None:
        _refuse_plain(declared)
    credentials = Credentials(
        make_credential(name, secret, _content(name, secret, os.environ)) for name, secret in declared.items()
    )
    if not credentials.open_tls:
        return Secrets(credentials)
    if session.network_authority is None:
        session.network_authority = _make_authority(settings)
    return Secrets(credentials, session.network_authority)


def _refuse_plain(declared: Mapping[str, NetworkSecret]) -> None:
    """Refuse to send a secret through a proxy of the client's choice, which would read it."""
    for name, secret in declared.items():
        if any(SecretHost.parse(host).scheme is Scheme.HTTP for host in secret.hosts):
            raise ValueError(
                f"the secret {name!r} is for an http host too, so the upstream proxy could read it;"
                " leave upstream out, or declare the secret for https hosts only"
            )


def without_secret_variables(
    environment: Mapping[str, str], secrets: Collection[NetworkSecret]
) -> dict[str, str]:
    """Return the variables of a confined command, without those that hold a secret."""
    taken = {secret.variable for secret in secrets}
    return {name: value for name, value in environment.items() if name not in taken}


def _content(name: str, secret: NetworkSecret, environment: Mapping[str, str]) -> bytes:
    if secret.variable is not None:
        value = environment.get(secret.variable)
        if value is None:
            raise SecretUnusable(name, "is missing: the server lacks the variable that the settings name")
        return os.fsencode(value)
    assert secret.file is not None
    try:
        return _read(secret.file)
    except OSError as error:
        raise SecretUnusable(name, f"can't be read from {secret.file}: {error.strerror}") from error


def _read(path: str) -> bytes:
    # O_NONBLOCK: the open of a pipe would wait for a writer.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(0, "it is not a regular file")
        # What is too long is refused afterwards.
        return os.read(file, VALUE_LIMIT_BYTES * 2)
    finally:
        os.close(file)


def _make_authority(settings: Settings) -> Authority:
    try:
        from paddock.network.authority import Authority
    except ImportError as error:
        raise SecretUnusable(
            "of an https host",
            "can't be sent: that takes the library cryptography; install paddock-exec[credentials]",
        ) from error
    from paddock.network.trust import host_roots

    # All that the settings declare, because other processes of the session may name others.
    hosts = [SecretHost.parse(host) for secret in settings.network_secrets.values() for host in secret.hosts]
    return Authority(hosts, host_roots(os.environ))
