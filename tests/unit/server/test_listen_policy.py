"""From settings to a guarded listener: what is refused, why, and what the user can do."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock.config import make_settings
from paddock.errors import ConfigError, ListenError, PaddockError
from paddock.server.auth import CapabilityToken, SignedToken
from paddock.server.listen_policy import MAX_SECRET_FILE_BYTES, ListenPolicy, load_listen_policy
from tests import tls

TOKEN = "correct-horse-battery-staple"
SECRET = "0123456789abcdef0123456789abcdef"


def policy(**settings: Any) -> ListenPolicy:
    return load_listen_policy(make_settings(settings))


def private(path: Path, content: str | bytes) -> str:
    """A file that only its owner can read."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    return private(tmp_path / "token", TOKEN)


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    return private(tmp_path / "secret", SECRET)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    return private(tmp_path / "key.pem", tls.KEY.read_bytes())


# ---------------------------------------------------------------- where strangers could come in


@pytest.mark.parametrize(
    "listen",
    ["ws://0.0.0.0:0", "ws://[::]:0", "ws://[::ffff:0.0.0.0]:0", "ws://192.0.2.1:4100", "ws://[fe80::1]:0"],
)
def test_an_address_that_others_can_reach_needs_auth(listen: str, token_file: str) -> None:
    with pytest.raises(
        ListenError, match=r"other machines can reach.*set ws_auth, or listen on 127\.0\.0\.1"
    ):
        policy(listen=listen)
    assert not policy(
        listen=listen, ws_auth="capability-token", ws_token_file=token_file
    ).request_filter.is_loopback


def test_operators_do_not_come_over_the_network_without_auth() -> None:
    with pytest.raises(ConfigError, match="needs ws_auth: a stranger must not reach every session"):
        policy(network_operators=True)


def test_encryption_does_not_replace_auth(key_file: str) -> None:
    with pytest.raises(ListenError, match="set ws_auth"):
        policy(listen="wss://0.0.0.0:0", tls_cert=str(tls.CERT), tls_key=key_file)


def test_a_token_that_would_cross_the_network_unencrypted_is_warned_of(
    token_file: str, key_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    auth = {"listen": "ws://0.0.0.0:0", "ws_auth": "capability-token", "ws_token_file": token_file}
    policy(**auth, tls_cert=str(tls.CERT), tls_key=key_file)
    assert caplog.text == ""
    policy(**auth)
    assert "unencrypted" in caplog.text


@pytest.mark.parametrize("listen", ["ws://127.0.0.1:0", "ws://[::1]:0", "ws://[::ffff:127.0.0.1]:0"])
def test_loopback_needs_no_auth_and_checks_the_host(listen: str) -> None:
    opened = policy(listen=listen)
    assert opened.request_filter.credential is None
    assert opened.request_filter.is_loopback
    assert opened.tls is None


@pytest.mark.parametrize("listen", ["stdio", "unix:///run/paddock.sock"])
@pytest.mark.parametrize("setting", ["ws_auth", "tls_cert", "allowed_origins", "allowed_hosts"])
def test_what_only_a_websocket_has_is_refused_elsewhere(
    listen: str, setting: str, token_file: str, key_file: str
) -> None:
    choices: dict[str, dict[str, Any]] = {
        "ws_auth": {"ws_auth": "capability-token", "ws_token_file": token_file},
        "tls_cert": {"tls_cert": str(tls.CERT), "tls_key": key_file},
        "allowed_origins": {"allowed_origins": ["https://a.example"]},
        "allowed_hosts": {"allowed_hosts": ["a.example"]},
    }
    with pytest.raises(ConfigError, match="needs a websocket") as caught:
        policy(listen=listen, **choices[setting])
    assert caught.value.key == setting


# ---------------------------------------------------------------- credentials


@pytest.mark.parametrize("content", [TOKEN, f"{TOKEN}\n", f"  {TOKEN} \r\n\n", f"\t{TOKEN}"])
def test_space_around_a_token_in_its_file_does_not_count(tmp_path: Path, content: str) -> None:
    opened = policy(ws_auth="capability-token", ws_token_file=private(tmp_path / "token", content))
    assert opened.request_filter.credential == CapabilityToken.of(TOKEN)


@pytest.mark.parametrize("change", [str.lower, str.upper, lambda digest: f" {digest}\n"])
def test_a_digest_replaces_the_file(change: Any) -> None:
    digest = change(hashlib.sha256(TOKEN.encode()).hexdigest())
    opened = policy(ws_auth="capability-token", ws_token_sha256=digest)
    assert opened.request_filter.credential == CapabilityToken.of(TOKEN)


def test_a_signed_token_has_what_the_settings_say(secret_file: str) -> None:
    opened = policy(ws_auth="signed-bearer-token", ws_shared_secret_file=secret_file)
    assert opened.request_filter.credential == SignedToken(secret=SECRET.encode(), max_clock_skew_s=30)
    opened = policy(
        ws_auth="signed-bearer-token",
        ws_shared_secret_file=secret_file,
        ws_issuer=" me ",
        ws_audience="you",
        ws_max_clock_skew_seconds=0,
    )
    assert opened.request_filter.credential == SignedToken(
        secret=SECRET.encode(), issuer="me", audience="you", max_clock_skew_s=0
    )


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        ({"ws_token_file": "/x"}, "ws_token_file", "needs ws_auth"),
        ({"ws_issuer": "x"}, "ws_issuer", "needs ws_auth"),
        ({"ws_max_clock_skew_seconds": 0}, "ws_max_clock_skew_seconds", "needs ws_auth"),
        ({"ws_auth": "capability-token"}, "ws_auth", "needs one of .* and neither is set"),
        (
            {"ws_auth": "capability-token", "ws_token_file": "/x", "ws_token_sha256": "0" * 64},
            "ws_auth",
            "needs one of .* not both",
        ),
        (
            {"ws_auth": "capability-token", "ws_token_file": "/x", "ws_audience": "x"},
            "ws_audience",
            "only with ws_auth signed-bearer-token",
        ),
        (
            {"ws_auth": "capability-token", "ws_token_sha256": ""},
            "ws_token_sha256",
            "has 0 characters, not 64",
        ),
        ({"ws_auth": "capability-token", "ws_token_sha256": "x" * 64}, "ws_token_sha256", "hexadecimal"),
        ({"ws_auth": "signed-bearer-token"}, "ws_auth", "needs ws_shared_secret_file"),
        (
            {"ws_auth": "signed-bearer-token", "ws_token_sha256": "0" * 64},
            "ws_token_sha256",
            "only with ws_auth capability-token",
        ),
        (
            {"ws_auth": "capability-token", "ws_token_file": "/no/such"},
            "ws_token_file",
            "/no/such can't be read: no",
        ),
        ({"ws_auth": "capability-token", "ws_token_file": "/"}, "ws_token_file", "is a directory"),
        ({"ws_auth": "capability-token", "ws_token_file": "\0"}, "ws_token_file", "not a path"),
        (
            {"ws_auth": "capability-token", "ws_token_file": "/dev/zero"},
            "ws_token_file",
            "is it the right file",
        ),
        ({"ws_auth": "capability-token", "ws_token_file": "/dev/null"}, "ws_token_file", "is empty"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_by_name(
    settings: dict[str, Any], key: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        policy(**settings)
    assert caught.value.key == key


@pytest.mark.parametrize("content", ["two\nlines", "tab\tinside", "naïve", b"\xff\xfe", "zero\0"])
def test_a_token_that_no_header_can_carry_is_refused(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(ConfigError, match=r"can't carry|not UTF-8"):
        policy(ws_auth="capability-token", ws_token_file=private(tmp_path / "token", content))


@pytest.mark.parametrize("content", ["short", "a" * 31, "a" * 31 + "\n", "é" * 15])
def test_a_secret_that_can_be_guessed_is_refused_with_the_way_out(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigError, match="too short to resist guessing; use 32 random bytes or more"):
        policy(ws_auth="signed-bearer-token", ws_shared_secret_file=private(tmp_path / "secret", content))


def test_a_token_that_can_be_guessed_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = policy(ws_auth="capability-token", ws_token_file=private(tmp_path / "token", "hunter2"))
    assert opened.request_filter.credential == CapabilityToken.of("hunter2")
    assert "can be guessed" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("key", ["ws_issuer", "ws_audience"])
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_expectation_does_not_switch_the_check_off(secret_file: str, key: str, blank: str) -> None:
    with pytest.raises(ConfigError, match="is blank") as caught:
        policy(ws_auth="signed-bearer-token", ws_shared_secret_file=secret_file, **{key: blank})
    assert caught.value.key == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_secret_file_that_others_can_use_is_warned_of(
    token_file: str, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    Path(token_file).chmod(mode)
    policy(ws_auth="capability-token", ws_token_file=token_file)
    assert f"mode={mode:o}" in caplog.text
    assert TOKEN not in caplog.text


def test_a_private_secret_file_is_nothing_to_talk_about(
    token_file: str, caplog: pytest.LogCaptureFixture
) -> None:
    policy(ws_auth="capability-token", ws_token_file=token_file)
    assert caplog.text == ""


def test_a_token_may_come_through_a_pipe(caplog: pytest.LogCaptureFixture) -> None:
    with subprocess.Popen(["/bin/echo", TOKEN], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        opened = policy(ws_auth="capability-token", ws_token_file=f"/proc/self/fd/{writer.stdout.fileno()}")
    assert opened.request_filter.credential == CapabilityToken.of(TOKEN)
    assert caplog.text == ""


def test_no_error_shows_what_a_secret_file_holds(tmp_path: Path) -> None:
    contents = [b"hunter2\xff", b"hunter2\nhunter2", b"hunter2" * MAX_SECRET_FILE_BYTES]
    for content in contents:
        file = private(tmp_path / "secret", content)
        for settings in (
            {"ws_auth": "capability-token", "ws_token_file": file},
            {"ws_auth": "signed-bearer-token", "ws_shared_secret_file": file},
            {"tls_cert": file, "tls_key": file},
            {"tls_cert": str(tls.CERT), "tls_key": file},
        ):
            with pytest.raises(PaddockError) as caught:
                policy(**settings)
            assert "hunter2" not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
    with pytest.raises(ConfigError) as caught_digest:
        policy(ws_auth="capability-token", ws_token_sha256="hunter2")
    assert "hunter2" not in f"{caught_digest.value} {caught_digest.value!r}"


# ---------------------------------------------------------------- TLS


def test_the_oldest_version_of_tls_is_1_2(key_file: str, caplog: pytest.LogCaptureFixture) -> None:
    context = policy(tls_cert=str(tls.CERT), tls_key=key_file).tls
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert caplog.text == ""


def test_a_key_that_others_can_read_is_warned_of(key_file: str, caplog: pytest.LogCaptureFixture) -> None:
    Path(key_file).chmod(0o644)
    policy(tls_cert=str(tls.CERT), tls_key=key_file)
    assert "setting=tls_key" in caplog.text


def test_wss_without_a_certificate_is_refused() -> None:
    with pytest.raises(ListenError, match="wss needs a certificate; set tls_cert and tls_key"):
        policy(listen="wss://127.0.0.1:0")


@pytest.mark.parametrize(
    ("cert", "key", "setting", "reason"),
    [
        (tls.CERT, None, "tls_key", "needs both"),
        (None, tls.KEY, "tls_cert", "needs both"),
        (Path("/no/such"), tls.KEY, "tls_cert", "can't be read: no such file"),
        (tls.CERT, Path("/no/such"), "tls_key", "can't be read: no such file"),
        (tls.KEY, tls.KEY, "tls_cert", "holds no certificate"),
        (tls.CERT, tls.CERT, "tls_key", "holds no private key"),
        (tls.CERT, tls.OTHER_KEY, "tls_key", "is not the key of the certificate"),
        (tls.CERT, tls.ENCRYPTED_KEY, "tls_key", "is encrypted; give a key without a passphrase"),
    ],
)
def test_a_certificate_that_can_not_be_used_is_refused_in_one_sentence(
    cert: Path | None, key: Path | None, setting: str, reason: str
) -> None:
    files = {"tls_cert": cert, "tls_key": key}
    with pytest.raises(ConfigError, match=reason) as caught:
        policy(**{name: str(file) for name, file in files.items() if file is not None})
    assert caught.value.key == setting
    assert "\n" not in str(caught.value)


def test_a_damaged_certificate_is_refused_in_one_sentence(tmp_path: Path, key_file: str) -> None:
    damaged = private(tmp_path / "cert.pem", tls.CERT.read_text().replace("MII", "MIX", 1)[:300])
    with pytest.raises(ConfigError, match="can't be used: ") as caught:
        policy(tls_cert=damaged, tls_key=key_file)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- names of origins and hosts


@pytest.mark.parametrize(
    "origin",
    ["*", "null", "https://*.example", "app.example", "https://a.example/", "https://", "https://a:x"],
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match="is not an origin") as caught:
        policy(allowed_origins=[origin])
    assert caught.value.key == "allowed_origins"


@pytest.mark.parametrize("host", ["", "a.example:80", "http://a.example", "a/b:1", "::1"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="is not a host name") as caught:
        policy(allowed_hosts=[host])
    assert caught.value.key == "allowed_hosts"


def test_origins_and_hosts_reach_the_gate_in_lower_case() -> None:
    request_filter = policy(
        allowed_origins=["https://App.example:8443"], allowed_hosts=["Box.example", "[2001:db8::1]"]
    ).request_filter
    assert request_filter.allowed_origins == {"https://app.example:8443"}
    assert request_filter.allowed_hosts == {"box.example", "2001:db8::1"}
