"""Secrets stay out of the log, and the rest stays in it."""

from __future__ import annotations

import string
from typing import SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.audit.event import (
    Approval,
    Decision,
    Denial,
    Event,
    Exit,
    NetworkDecision,
    Start,
    encode,
)
from paddock.audit.redaction import (
    FIELD_LIMIT_CHARS,
    LIST_LIMIT_CHARS,
    PROPAGATED_CHARS,
    REDACTED,
    SEARCHED_CHARS,
    SEARCHED_SECRETS,
    Redactor,
)

redactor = Redactor()

secret_names = st.sampled_from(
    [
        *(
            "TOKEN",
            "GITHUB_TOKEN",
            "NpmToken",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "PGPASSWORD",
            "db_pass",
        ),
        *("MYSQL_PWD", "SSH_KEY", "apiKey", "GOOGLE_CREDENTIALS", "REGISTRY_AUTH", "AUTHORIZATION", "COOKIE"),
        *("jwt", "PRIVATE_PEM", "session_id", "SIGNATURE", "BASIC_AUTH", "passphrase"),
    ]
)
plain_names = st.sampled_from(
    ["PATH", "HOME", "LANG", "PWD", "OLDPWD", "GIT_AUTHOR_NAME", "CC", "USER", "EDITOR"]
)
# Marked, so that it can be searched for; without the characters that end a word in a shell.
secrets = st.text(string.ascii_letters + string.digits + "+/._~-%", min_size=5, max_size=40).map(
    "zq7".__add__
)


@given(secret_names)
def test_a_name_that_looks_secret_is_one_in_every_spelling(name: str) -> None:
    for spelling in (name, name.upper(), name.lower(), f"--{name.replace('_', '-')}", f"MY_{name}"):
        assert redactor.is_secret(spelling)


@given(plain_names)
def test_an_ordinary_name_is_none(name: str) -> None:
    assert not redactor.is_secret(name)


def test_names_can_be_added_by_pattern() -> None:
    added = Redactor(["corp_*", "X?"])

    assert added.is_secret("CORP_ID")
    assert added.is_secret("--corp_id")
    assert added.is_secret("xy")
    assert not added.is_secret("MY_CORP_ID")


@given(secret_names, plain_names, secrets)
def test_the_value_of_a_secret_variable_is_nowhere(name: str, plain: str, secret: str) -> None:
    event = Start(
        argv=("curl", f"--data={secret}", f"x{secret}y"),
        cwd=f"/tmp/{secret}",
        env={name: secret, plain: f"a{secret}"},
    )

    line = encode(redactor.redact(event)).decode()

    assert secret not in line
    assert name in line


FORMS = [
    "{name}={secret}",
    "--{name}={secret}",
    "export {name}={secret}; ls",
    "{name}='{secret}' make",
    '{name}="{secret} {secret}" make',
    "curl -H 'X-{name}: {secret}' host",
    "curl -H 'X-{name}: Bearer {secret}' host",
    '{{"{name}": "{secret}"}}',
    "tool --{name} {secret} --verbose",
    "tool --{name} '{secret}'",
    "https://host/path?a=1&{name}={secret}&b=2",
    "postgres://user:{secret}@host/db",
    "https://{secret}@host/",
]


@pytest.mark.parametrize("form", FORMS)
@given(name=secret_names, secret=secrets)
def test_no_form_of_a_command_line_shows_a_secret(form: str, name: str, secret: str) -> None:
    if "://" in form:
        secret = secret.replace("/", "%2F")
    text = form.format(name=name.replace("_", "-") if "X-" in form else name, secret=secret)

    for argv in (("bash", "-lc", text), ("tool", text)):
        words = redactor.arguments(argv)
        assert secret not in " ".join(words)
        assert REDACTED in words[-1]


@given(secret_names, secrets)
def test_the_word_behind_a_secret_flag_is_hidden(name: str, secret: str) -> None:
    assert redactor.arguments(["tool", f"--{name}", secret, "file"]) == (
        "tool",
        f"--{name}",
        REDACTED,
        "file",
    )


def test_what_surrounds_a_secret_stays() -> None:
    script = "export TOKEN='a b' X=1; curl -H 'Authorization: Bearer z' https://u:p@h/x?key=9&b=1 && ls"

    assert redactor.arguments(["bash", "-lc", script])[2] == (
        "export TOKEN=[redacted] X=1; curl -H 'Authorization: [redacted]' "
        "https://[redacted]@h/x?key=[redacted]&b=1 && ls"
    )


def test_all_of_a_word_is_the_value_unless_it_is_a_script() -> None:
    assert redactor.arguments(["env", "TOKEN=a b; c"]) == ("env", f"TOKEN={REDACTED}")
    assert redactor.arguments(["sh", "-c", "TOKEN=a b; c"]) == ("sh", "-c", f"TOKEN={REDACTED} b; c")


def test_a_flag_behind_a_secret_flag_is_none_of_its_value() -> None:
    assert redactor.arguments(["tool", "--no-auth", "--verbose"]) == ("tool", "--no-auth", "--verbose")


def test_a_password_behind_a_user_is_hidden() -> None:
    assert redactor.arguments(["curl", "-u", "me:pw", "h"]) == ("curl", "-u", f"me:{REDACTED}", "h")
    assert redactor.arguments(["sudo", "-u", "root", "ls"]) == ("sudo", "-u", "root", "ls")


@given(st.lists(st.text(string.ascii_lowercase + string.digits + " /,", max_size=20), max_size=6))
def test_ordinary_words_stay_as_they_are(words: list[str]) -> None:
    assert redactor.arguments(words) == tuple(words)


@given(st.lists(st.text(max_size=60), max_size=6), st.dictionaries(st.text(max_size=9), st.text(max_size=30)))
def test_nothing_that_a_client_sends_is_refused(argv: list[str], env: dict[str, str]) -> None:
    event = redactor.redact(Start(argv=tuple(argv), cwd="/", env=env))

    assert isinstance(event, Start)
    assert len(event.argv) == len(argv)
    assert event.env.keys() == env.keys()
    encode(event)


EVENTS: list[Event] = [
    Decision(argv=("x", "--token", "zq7"), cwd="/", decision="allow", reason="TOKEN=zq7"),
    Approval(argv=("x", "TOKEN=zq7"), cwd="/", approved=True, by="me"),
    Denial(operation="connect", subject="https://me:zq7@host"),
    NetworkDecision(host="h", port=1, protocol="tcp", decision="forbidden", reason="https://zq7@host"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_kind_of_event_is_redacted(event: Event) -> None:
    redacted = encode(redactor.redact(event))

    assert b"zq7" not in redacted
    assert REDACTED.encode() in redacted


def test_an_event_without_text_stays_as_it_is() -> None:
    assert redactor.redact(Exit(pid=3, exit_code=0)) == Exit(pid=3, exit_code=0)


def test_what_is_too_long_is_cut_and_says_so() -> None:
    event = redactor.redact(
        Start(
            process="p" * 9000,
            argv=("a" * LIST_LIMIT_CHARS, "b", "c"),
            cwd="/",
            env={"X": "y" * 10**6, "Z": ""},
        )
    )

    assert isinstance(event, Start)
    assert event.process == "p" * FIELD_LIMIT_CHARS + f"… (+{9000 - FIELD_LIMIT_CHARS})"
    assert event.argv == ("a" * LIST_LIMIT_CHARS, "… (+2 more)")
    assert event.env["…"] == "(+1 more)"
    assert len(encode(event)) < 3 * LIST_LIMIT_CHARS


class CountedText(str):
    """A text that counts how often it is searched."""

    searches = 0

    def __contains__(self, part: object) -> bool:
        CountedText.searches += 1
        return isinstance(part, str) and str.__contains__(self, part)

    def __getitem__(self, index: SupportsIndex | slice) -> str:
        return CountedText(str.__getitem__(self, index))


def start_with(secrets: int, argv: tuple[str, ...], **env: str) -> Start:
    tokens = {f"TOKEN{number}": f"zq7-{number:08}" for number in range(secrets)}
    event = redactor.redact(Start(argv=argv, cwd="/", env=tokens | env))
    assert isinstance(event, Start)
    return event


def test_words_are_not_searched_for_secrets_that_are_in_none_of_them() -> None:
    CountedText.searches = 0
    words = tuple(CountedText(f"word {number}") for number in range(1000))

    assert start_with(SEARCHED_SECRETS, ("sh", *words)).argv[1:] == words
    # Each form of a secret in a word is looked for; the secrets are looked for in all words at once.
    assert CountedText.searches < 10 * len(words)


def test_very_many_secrets_are_not_searched_for_and_no_argument_is_shown() -> None:
    event = start_with(SEARCHED_SECRETS + 1, ("sh", "zq7-00000001", "plain"), HOME="/zq7-00000001")

    assert event.argv == ("sh", f"{REDACTED} (+2 more)")
    assert set(event.env.values()) == {REDACTED}
    assert start_with(SEARCHED_SECRETS + 1, ("x-zq7-00000001-x",)).argv == (f"x-{REDACTED}",)


def test_many_secrets_are_found() -> None:
    event = start_with(SEARCHED_SECRETS, ("sh", "a zq7-00000001 b", "plain"), HOME="/zq7-00000009")

    assert event.argv == ("sh", f"a {REDACTED} b", "plain")
    assert event.env["HOME"] == f"/{REDACTED}"


@given(
    st.integers(0, 3 * SEARCHED_CHARS), st.integers(0, 3 * SEARCHED_CHARS), st.sampled_from(["", "!", "a"])
)
def test_long_secrets_that_begin_alike_are_hidden_as_a_whole(one: int, other: int, end: str) -> None:
    secrets = ["zq7" + "a" * SEARCHED_CHARS + "b" * one, "zq7" + "a" * SEARCHED_CHARS + "c" * other]
    env = {f"TOKEN{number}": secret for number, secret in enumerate(secrets)}
    event = redactor.redact(Start(argv=tuple(f"({secret}){end}" for secret in secrets), cwd="/", env=env))

    assert isinstance(event, Start)
    assert event.argv == (f"({REDACTED}){end}",) * 2


@given(st.integers(0, 2 * SEARCHED_CHARS), st.integers(PROPAGATED_CHARS, 2 * SEARCHED_CHARS))
def test_a_secret_that_is_cut_is_hidden_too(before: int, length: int) -> None:
    secret = ("zq7" * length)[:length]
    text = "." * (FIELD_LIMIT_CHARS - before) + secret + "." * 500
    event = redactor.redact(Start(argv=("sh",), cwd=text, env={"TOKEN": secret}))

    assert isinstance(event, Start)
    assert "zq7" not in event.cwd
    assert len(event.cwd) < FIELD_LIMIT_CHARS + SEARCHED_CHARS


@pytest.mark.parametrize(
    "unit",
    [
        "a=",
        "a:",
        "-a ",
        "token='",
        'token="\\"',
        "a",
        "x://",
        "-",
        " ",
        "token: ",
        "cookie: a;",
        "--key ",
        "k=@",
    ],
)
def test_a_hostile_text_of_full_length_takes_no_more_than_moments(unit: str) -> None:
    # The time limit of the test is the limit: quadratic time would be a minute.
    redactor.arguments(["sh", "-c", unit * (LIST_LIMIT_CHARS // len(unit))])
