"""Settings: defaults, TOML, and errors that name the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.config import Settings, load_settings, make_settings, place_of
from paddock.errors import ConfigError


def test_nothing_given_means_the_defaults() -> None:
    assert make_settings({}) == Settings()


def test_a_file_sets_what_it_names_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "paddock.toml"
    file.write_text('listen = "stdio"\nconcurrent_requests = 5\nallow_prepared_exec = true\n')

    settings = load_settings(file, {"concurrent_requests": 7})

    assert (settings.listen, settings.concurrent_requests) == ("stdio", 7)
    assert settings.allow_prepared_exec


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'max_proceses'.*no such setting.*max_processes_per_connection"):
        make_settings({"max_proceses": 1})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("concurrent_requests", 0),
        ("session_ttl_s", -1),
        ("listen", 5),
        ("allow_direct_exec", "yes"),
        ("retained_output_bytes_per_process", 10),
        ("max_json_depth", 100_000),
    ],
)
def test_a_bad_value_is_named_with_its_key(key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make_settings({key: value})

    assert caught.value.key == key
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("text", ["listen = ", "a = 1\na = 2", "\x00"])
def test_what_is_not_toml_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=r"broken\.toml: is not valid TOML"):
        load_settings(file)


def test_a_value_of_another_type_is_told_in_the_words_of_toml() -> None:
    with pytest.raises(ConfigError, match="setting 'listen': expected a string; it is 3"):
        make_settings({"listen": 3})
    with pytest.raises(ConfigError, match="expected an array; it is 'x'"):
        make_settings({"allowed_hosts": "x"})


def test_a_near_miss_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "paddock.toml"
    file.write_text("# mine\nsession_ttl_s = 3\nlistne = 'stdio'\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    assert str(caught.value) == (
        f"{file}:3: setting 'listne': there is no such setting; did you mean 'listen'?"
    )


def test_the_place_is_that_of_the_setting_and_not_of_a_flag(tmp_path: Path) -> None:
    file = tmp_path / "paddock.toml"
    text = "listen = 'stdio'\nallowed_hosts = ['a', 1]\n\n[permissions.mine]\nextends = 3\n"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"{file}:2: "):
        load_settings(file)
    assert place_of("permissions.mine.extends", file, text) == f"{file}:5"
    assert place_of("permissions.mine.limits", file, text) == f"{file}:4"
    assert place_of("max_profile", file, text) is None
    file.write_text("listen = 'stdio'\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(file, {"listen": 3})
    assert caught.value.place is None


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load_settings(tmp_path / "missing.toml")


def test_a_choice_is_refused_with_what_there_is_to_choose_from() -> None:
    with pytest.raises(ConfigError, match="expected capability-token or signed-bearer-token; it is 'token'"):
        make_settings({"ws_auth": "token"})


def test_a_bad_item_of_a_list_is_named_with_the_list() -> None:
    with pytest.raises(ConfigError, match=r"'allowed_origins\[1\]'.*it is \['https://a', 5\]"):
        make_settings({"allowed_origins": ["https://a", 5]})


def test_what_may_be_a_token_by_mistake_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="ws_token_sha256") as caught:
        make_settings({"ws_token_sha256": ["hunter2"]})
    assert "hunter2" not in str(caught.value)
