"""Settings: defaults, TOML, and errors that name the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.config import Settings, load_settings, make_settings
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

    with pytest.raises(ConfigError, match=r"broken\.toml.*not valid TOML"):
        load_settings(file)


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load_settings(tmp_path / "missing.toml")
