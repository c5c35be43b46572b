"""Secrets of the settings: which of them a profile gets, and that no error tells one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from paddock.config import make_settings
from paddock.errors import ConfigError, SecretUnusable
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.network_secret import Scheme
from paddock.model.profile import ProxiedNetwork
from paddock.network.gateway import Secrets
from paddock.server.network_secrets import secrets_of, without_secret_variables
from paddock.server.session import Session

TOKEN = "t0k3n-that-nobody-sees"
TARGET = Endpoint("a.test", 80, NetworkProtocol.HTTP)


def read(
    declared: dict[str, Any], *named: str, cap: ProxiedNetwork | None = None, is_capped: bool = False
) -> Secrets | None:
    settings = make_settings({"network_secrets": {"t": {"hosts": ["http://a.test"], **declared}}})
    session = cast("Session", SimpleNamespace(network_authority=None))
    return secrets_of(ProxiedNetwork(secrets=named), cap, is_capped, settings, session)


def test_secret_is_read_from_its_file_or_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    monkeypatch.setenv("OF_TEST", TOKEN)
    for declared in ({"file": str(file)}, {"variable": "OF_TEST"}):
        found = read(declared, "t")
        assert found is not None
        headers = found.credentials.headers_for(Scheme.HTTP, TARGET, b"GET")
        assert headers == {b"authorization": TOKEN.encode()}
        assert TOKEN not in repr(found)
    assert read({"variable": "OF_TEST"}) is None


def test_cap_has_to_name_a_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_TEST", TOKEN)
    for cap in (None, ProxiedNetwork(allow=("a.test",))):
        with pytest.raises(ValueError, match="caps requests does not name the secret 't'"):
            read({"variable": "OF_TEST"}, "t", cap=cap, is_capped=True)
    assert read({"variable": "OF_TEST"}, "t", cap=ProxiedNetwork(secrets=("t",)), is_capped=True) is not None


def test_processes_of_a_session_trust_one_authority_for_hosts_with_tls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OF_TEST", TOKEN)
    settings = make_settings({"network_secrets": {"t": {"hosts": ["https://a.test"], "variable": "OF_TEST"}}})
    session = cast("Session", SimpleNamespace(network_authority=None))
    network = ProxiedNetwork(secrets=("t",))
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "paddock.network.authority", None)
        with pytest.raises(SecretUnusable, match=r"install paddock-exec\[credentials\]"):
            secrets_of(network, None, False, settings, session)
    first, second = (secrets_of(network, None, False, settings, session) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.authority is not None
    assert first.authority is second.authority
    other = cast("Session", SimpleNamespace(network_authority=None))
    third = secrets_of(network, None, False, settings, other)
    assert third is not None
    assert third.authority is not first.authority


def test_upstream_proxy_of_the_profile_gets_no_secret_that_it_could_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OF_TEST", TOKEN)
    settings = make_settings(
        {"network_secrets": {"t": {"hosts": ["https://a.test", "http://a.test"], "variable": "OF_TEST"}}}
    )
    session = cast("Session", SimpleNamespace(network_authority=None))
    network = ProxiedNetwork(secrets=("t",), upstream="http://mine.test:3128")
    with pytest.raises(ValueError, match="the upstream proxy could read it"):
        secrets_of(network, None, False, settings, session)


def test_secret_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="no secret 'other'"):
        read({"variable": "OF_TEST_MISSING"}, "other")
    for declared, reason in (
        ({"variable": "OF_TEST_MISSING"}, "lacks the variable"),
        ({"file": str(tmp_path / "missing")}, "No such file"),
        ({"file": str(pipe)}, "not a regular file"),
        ({"file": str(tmp_path)}, "directory|regular"),
    ):
        with pytest.raises(SecretUnusable, match=reason):
            read(declared, "t")


def test_variable_of_a_secret_is_left_out() -> None:
    settings = make_settings({"network_secrets": {"t": {"hosts": ["http://a.test"], "variable": "OF_TEST"}}})
    kept = without_secret_variables({"OF_TEST": TOKEN, "HOME": "/"}, settings.network_secrets.values())
    assert kept == {"HOME": "/"}


@pytest.mark.parametrize("wrong", [{"value": TOKEN}, {"template": TOKEN}, {"variable": TOKEN + "="}])
def test_error_about_a_declaration_does_not_tell_what_was_written(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        make_settings({"network_secrets": {"t": {"hosts": ["http://a.test"], "variable": "T", **wrong}}})
    assert TOKEN not in str(caught.value)
