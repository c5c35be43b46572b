from __future__ import annotations

import pytest

from paddock.sandbox.denial.invocation import ARGUMENTS_LIMIT, Invocation


def script(text: str) -> Invocation:
    return Invocation(["/bin/bash", "-lc", text], "/w")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("touch x", "x"),
        ("echo > /etc/x", "/etc/x"),
        ("echo >/etc/x;", "/etc/x"),
        ("open('ro/x')", "ro/x"),
        ("rm -rf .git", ".git/config"),
        ("find . -name y", "./secret"),
        ("ls /a/", "/a/b"),
        ("./tool", "/w/tool"),
        ("cd v && make x", "/w/v/x"),
        ("/usr/bin/git add x", ".git/index"),
    ],
)
def test_a_path_is_named_by_itself_or_by_a_directory_above_it(text: str, path: str) -> None:
    assert script(text).names(path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("touch xy", "x"),
        ("cat /etc/x.log", "/etc/x"),
        ("cat a/x", "x"),
        ("ls /var/log", "/var/run/x"),
        ("", "x"),
        ("find / -name y", "/a/b"),
        ("git add x", "v/.git/index"),
    ],
)
def test_a_part_of_a_word_names_nothing(text: str, path: str) -> None:
    assert not script(text).names(path)


@pytest.mark.parametrize(
    ("text", "path", "absolute"),
    [
        ("touch x", "x", "/w/x"),
        ("touch x", "/etc/x", "/etc/x"),
        ("cd /v && touch x", "x", "/v/x"),
        ("cd v/ && touch x", "x", "/w/v//x"),
        ("make", "x", None),
        ("cd v; touch x", "x", None),
        ("cd v && cd u && touch x", "x", None),
        ("git -C v add x", "x", None),
        ("python3 -c \"os.chdir('v'); open('x')\"", "x", None),
    ],
)
def test_a_relative_path_is_known_if_it_is_named_and_nobody_goes_elsewhere(
    text: str, path: str, absolute: str | None
) -> None:
    assert script(text).absolute(path) == absolute


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("curl http://a.b:80/x", "a.b:80"),
        ("curl https://user@a.b/x https://a.b/y", "a.b"),
        ("curl http://a.b http://c.d", None),
        ("make", None),
    ],
)
def test_the_host_of_all_urls_is_known(text: str, host: str | None) -> None:
    assert script(text).host == host


def test_words_are_found_whatever_their_case_and_however_long_the_arguments_are() -> None:
    command = script("x" * 2 * ARGUMENTS_LIMIT + " Permission Denied")
    assert (command.has_any(["permission denied"]), command.has_any(["read-only"])) == (True, False)


def test_a_host_is_named_inside_of_a_url() -> None:
    command = script("curl http://10.0.0.1:80/")
    assert (command.names_host("10.0.0.1"), command.names_host("0.0.0.1")) == (True, False)
