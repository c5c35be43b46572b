"""Which variables look like secrets."""

from __future__ import annotations

import pytest

from paddock.model.secret_name import without_secrets

SECRET = [
    "APIKEY",
    "AUTHTOKEN",
    "MY_API_KEY",
    "API_KEY",
    "openai_api_key",
    "KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "TOKEN",
    "NPM_TOKEN_FILE",
    "CLIENT_SECRET",
    "SECRETS",
    "PGPASSWORD",
    "DB_PASSWD",
    "MYAPIKEY2",
    "PADDOCK_TOKEN",
]
PLAIN = [
    "KEYBOARD",
    "MONKEY",
    "TOKENIZERS_PARALLELISM",
    "KEYMAP",
    "TURKEY",
    "PATH",
    "HOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "TOKENS_PER_SECOND",
    "DONKEYS",
]


@pytest.mark.parametrize("name", SECRET)
def test_secret_is_left_out(name: str) -> None:
    assert without_secrets({name: "x", "PLAIN": "y"}) == {"PLAIN": "y"}


@pytest.mark.parametrize("name", PLAIN)
def test_name_that_only_contains_such_a_word_stays(name: str) -> None:
    assert without_secrets({name: "x"}) == {name: "x"}
