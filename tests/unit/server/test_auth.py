"""Bearer tokens: which are accepted, and in which words the others are refused."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.server.auth import (
    BAD_HEADER,
    BAD_JWT,
    EXPIRED,
    MISSING,
    NOT_YET_VALID,
    WRONG_AUDIENCE,
    WRONG_ISSUER,
    WRONG_TOKEN,
    CapabilityToken,
    SignedToken,
    bearer_refusal,
)
from tests.tokens import HEADER, SECRET, encode, seal, sign, token

NOW = 1_700_000_000
CAPABILITY = CapabilityToken.of("open sesame")
SIGNED = SignedToken(secret=SECRET)
STRICT = SignedToken(secret=SECRET, issuer="me", audience="you", max_clock_skew_s=0)
GOOD = token({"exp": NOW + 60})
UNSIGNED = ".".join((encode(b'{"alg":"none"}'), encode(b'{"exp":1700000060}')))

visible = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))


# ---------------------------------------------------------------- the header


@pytest.mark.parametrize(
    "header",
    [
        "Bearer open sesame",
        "bearer open sesame",
        "BEARER open sesame",
        "Bearer  open sesame",
        "Bearer open sesame  ",
    ],
)
def test_the_scheme_ignores_case_and_the_token_the_space_around_it(header: str) -> None:
    assert bearer_refusal(header, CAPABILITY, NOW) is None


def test_a_request_without_the_header_is_told_what_is_missing() -> None:
    assert bearer_refusal(None, CAPABILITY, NOW) == MISSING == "missing websocket bearer token"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic b3BlbiBzZXNhbWU=",
        "open sesame",
        "Bearer\topen sesame",
        "Bearer open sésame",
        "Bearer open\0sesame",
        "Bearer \udce9",
    ],
)
def test_a_header_that_holds_no_bearer_token_is_refused(header: str) -> None:
    assert bearer_refusal(header, CAPABILITY, NOW) == BAD_HEADER == "invalid authorization header"


@given(st.text())
def test_no_header_makes_it_fail(header: str) -> None:
    for credential in (CAPABILITY, SIGNED):
        assert bearer_refusal(header, credential, NOW) is not None


# ---------------------------------------------------------------- capability tokens


@pytest.mark.parametrize("wrong", ["open sesamE", "open sesame!", "open", "x" * 10_000, '"open sesame"'])
def test_another_token_is_refused(wrong: str) -> None:
    assert CAPABILITY.refusal(wrong, NOW) == WRONG_TOKEN == "invalid websocket bearer token"


@given(visible)
def test_only_the_token_itself_is_accepted(candidate: str) -> None:
    assert (CAPABILITY.refusal(candidate, NOW) is None) == (candidate == "open sesame")


def test_a_digest_alone_is_enough_to_know_the_token() -> None:
    assert CapabilityToken(hashlib.sha256(b"open sesame").digest()).refusal("open sesame", NOW) is None


# ---------------------------------------------------------------- signed tokens


def test_a_signed_token_that_has_not_expired_is_accepted() -> None:
    assert SIGNED.refusal(GOOD, NOW) is None


def test_the_token_that_the_guide_makes_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_bytes(SECRET + b"\n")
    monkeypatch.chdir(tmp_path)
    guide = Path(__file__).parents[3] / "docs" / "how-to" / "secure-a-server.md"
    [program] = re.findall(r"```python\n(import base64.*?)```", guide.read_text(), re.DOTALL)
    exec(program, {})
    credential = SignedToken(secret=SECRET, issuer="ops", audience="box-7")
    assert credential.refusal(capsys.readouterr().out.strip(), time.time()) is None


@pytest.mark.parametrize(
    "bad",
    [
        "abc",
        "a.b.c",
        "..",
        token({"exp": NOW + 60}, secret=b"another secret of at least 32 bytes"),
        token({"exp": NOW + 60}, header={"alg": "none"}),
        f"{UNSIGNED}.",
        token({"exp": NOW + 60}, header={"alg": "HS512"}, digest=hashlib.sha512),
        token({"exp": NOW + 60}, header={"alg": "HS384"}, digest=hashlib.sha384),
        token({"exp": NOW + 60}, digest=hashlib.sha512),
        token({"exp": NOW + 60}, header={"alg": "hs256"}),
        token({"exp": NOW + 60}, header={"alg": ["HS256"]}),
        token({"exp": NOW + 60}, header={"typ": "JWT"}),
        token({"exp": NOW + 60}, header=["HS256"]),
        token({"exp": NOW + 60}, header={"alg": "HS256", "crit": ["b64"], "b64": False}),
        seal(f"{GOOD.rpartition('.')[0]}=="),
        seal(f"!{GOOD.rpartition('.')[0]}"),
        sign(b'{"alg":"none","alg":"HS256"}', b'{"exp":1700000060}'),
        sign(b'{"alg":"HS256"}', b'{"exp":1,"exp":1700000060}'),
        sign(b'{"alg":"HS256"}', b'{"exp":1700000060} x'),
        sign(b'{"alg":"HS256"}', b'{"exp":1700000060,"x":"\xff"}'),
        sign(b'{"alg":"HS256"}', '{"exp":1700000060}'.encode("utf-16")),
        sign(b'{"alg":"HS256"}', b"[" * 100_000),
        sign(b'{"alg":"HS256"}', b'{"exp":' + b"9" * 10_000 + b"}"),
        sign(b'{"alg":"HS256"}', b""),
        sign(b"", b'{"exp":1700000060}'),
        f"{GOOD}.x",
        f"{GOOD}=",
        f" {GOOD}",
    ],
)
def test_a_token_that_is_not_well_signed_and_well_formed_is_refused(bad: str) -> None:
    assert SIGNED.refusal(bad, NOW) == BAD_JWT == "invalid websocket jwt"


@pytest.mark.parametrize(
    "claims",
    [
        {},
        [],
        None,
        {"exp": None},
        {"exp": str(NOW + 60)},
        {"exp": NOW + 60.5},
        {"exp": float(NOW + 60)},
        {"exp": True},
        {"exp": 1 << 63},
        {"exp": NOW + 60, "nbf": 1.5},
        {"exp": NOW + 60, "nbf": "1"},
        {"exp": NOW + 60, "iss": 1},
        {"exp": NOW + 60, "iss": ["me"]},
        {"exp": NOW + 60, "aud": 1},
        {"exp": NOW + 60, "aud": ["you", 1]},
        {"exp": NOW + 60, "aud": {"you": 1}},
    ],
)
def test_claims_of_the_wrong_kind_are_refused(claims: Any) -> None:
    assert SIGNED.refusal(token(claims), NOW) == BAD_JWT


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": (1 << 63) - 1},
        {"exp": NOW + 60, "nbf": None, "iss": None, "aud": None},
        {"exp": NOW + 60, "iss": "anybody", "aud": "anything", "iat": "never looked at"},
        {"exp": NOW + 60, "aud": []},
        {"exp": NOW + 60, "nbf": -(1 << 63)},
    ],
)
def test_claims_that_nobody_asked_for_do_no_harm(claims: Any) -> None:
    assert SIGNED.refusal(token(claims), NOW) is None


@pytest.mark.parametrize("header", [{"alg": "HS256"}, HEADER | {"kid": "1"}, {"alg": "HS256", "typ": "JWS"}])
def test_other_headers_do_no_harm(header: dict[str, Any]) -> None:
    assert SIGNED.refusal(token({"exp": NOW + 60}, header=header), NOW) is None


@pytest.mark.parametrize(
    ("claims", "refusal"),
    [
        ({"exp": NOW - 30}, None),
        ({"exp": NOW - 31}, EXPIRED),
        ({"exp": 0}, EXPIRED),
        ({"exp": -1}, EXPIRED),
        ({"exp": NOW + 60, "nbf": NOW + 30}, None),
        ({"exp": NOW + 60, "nbf": NOW + 31}, NOT_YET_VALID),
        ({"exp": NOW - 31, "nbf": NOW + 31}, EXPIRED),
    ],
)
def test_clocks_may_differ_by_the_skew_and_no_more(claims: Any, refusal: str | None) -> None:
    assert SIGNED.refusal(token(claims), NOW) == refusal
    assert SIGNED.refusal(token(claims), NOW + 0.999) == refusal, "fractions of a second do not count"


def test_the_time_is_that_of_the_question() -> None:
    assert STRICT.refusal(token({"exp": NOW, "iss": "me", "aud": "you"}), NOW) is None
    assert STRICT.refusal(token({"exp": NOW, "iss": "me", "aud": "you"}), NOW + 1) == EXPIRED


@pytest.mark.parametrize(
    ("claims", "refusal"),
    [
        ({"iss": "me", "aud": "you"}, None),
        ({"iss": "me", "aud": ["others", "you"]}, None),
        ({"aud": "you"}, WRONG_ISSUER),
        ({"iss": "Me", "aud": "you"}, WRONG_ISSUER),
        ({"iss": "me"}, WRONG_AUDIENCE),
        ({"iss": "me", "aud": []}, WRONG_AUDIENCE),
        ({"iss": "me", "aud": "yo"}, WRONG_AUDIENCE),
        ({"iss": "me", "aud": "your"}, WRONG_AUDIENCE),
        ({"iss": "you", "aud": "me"}, WRONG_ISSUER),
        ({"iss": "x", "nbf": NOW + 1}, NOT_YET_VALID),
    ],
)
def test_issuer_and_audience_must_be_the_expected_ones(claims: Any, refusal: str | None) -> None:
    assert STRICT.refusal(token({"exp": NOW} | claims), NOW) == refusal


@given(st.data())
def test_any_mutated_token_is_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(len(GOOD), start + 4)))
    mutated = GOOD[:start] + data.draw(visible) + GOOD[end:]
    assert (SIGNED.refusal(mutated, NOW) is None) == (mutated == GOOD)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["exp", "nbf", "iss", "aud", "x"]), json_values))
def test_no_claims_make_it_fail_and_none_without_a_whole_exp_pass(claims: dict[str, Any]) -> None:
    refusal = SIGNED.refusal(token(claims), NOW)
    if type(claims.get("exp")) is not int:
        assert refusal == BAD_JWT


@given(st.binary(), st.binary())
def test_no_bytes_that_are_well_signed_make_it_fail(header: bytes, claims: bytes) -> None:
    assert SIGNED.refusal(sign(header, claims), NOW) is not None


def test_no_secret_shows_in_a_repr() -> None:
    assert repr(CAPABILITY) == "CapabilityToken()"
    assert SECRET.decode() not in repr(SIGNED)
