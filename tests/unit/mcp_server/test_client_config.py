"""The entry for `paddock mcp` in the configurations of clients: added, and nothing lost."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.mcp_install import CLIENT_NAMES
from paddock.errors import PaddockError
from paddock.mcp_server.client_config import CLIENTS, expanded, with_entry

COMMAND = ("/opt/paddock", "mcp", "--workspace", "/work")
JSON_CLIENTS = [name for name, kind in CLIENTS.items() if not kind.is_toml]


def test_command_line_offers_every_client() -> None:
    assert tuple(CLIENTS) == CLIENT_NAMES


@pytest.mark.parametrize("name", JSON_CLIENTS)
def test_new_file_has_the_entry_and_nothing_else(name: str) -> None:
    kind = CLIENTS[name]
    written = json.loads(with_entry(kind, "", COMMAND))
    assert list(written) == [kind.key]
    entry = written[kind.key]["paddock"]
    assert (entry["command"], entry["args"]) == ("/opt/paddock", ["mcp", "--workspace", "/work"])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), values), st.dictionaries(st.text(), st.dictionaries(st.text(), values)))
def test_everything_else_in_a_file_stays(rest: dict[str, object], servers: dict[str, object]) -> None:
    kind = CLIENTS["cursor"]
    before = rest | {"mcpServers": servers}
    after = json.loads(with_entry(kind, json.dumps(before), COMMAND))
    assert {name: each for name, each in after.items() if name != "mcpServers"} == {
        name: each for name, each in before.items() if name != "mcpServers"
    }
    others = {name: each for name, each in after["mcpServers"].items() if name != "paddock"}
    assert others == {name: each for name, each in servers.items() if name != "paddock"}
    assert list(before) == list(after)


def test_what_somebody_added_to_the_entry_stays() -> None:
    before = json.dumps({"mcpServers": {"paddock": {"command": "old", "env": {"A": "b"}}}})
    entry = json.loads(with_entry(CLIENTS["cursor"], before, COMMAND))["mcpServers"]["paddock"]
    assert (entry["env"], entry["command"]) == ({"A": "b"}, "/opt/paddock")


def test_second_time_changes_nothing() -> None:
    for kind in CLIENTS.values():
        once = with_entry(kind, "", COMMAND)
        assert with_entry(kind, once, COMMAND) == once


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {} // mine\n}',
        '{"a": 1, "a": 2}',
        '{"mcpServers": []}',
        '{"mcpServers": {"paddock": 1}}',
    ],
)
def test_file_that_cannot_be_read_for_certain_is_refused(text: str) -> None:
    with pytest.raises(PaddockError):
        with_entry(CLIENTS["cursor"], text, COMMAND)


def test_toml_is_added_to_at_its_end_and_keeps_its_comments() -> None:
    before = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"'
    after = with_entry(CLIENTS["codex"], before, COMMAND)
    assert after.startswith(before)
    assert tomllib.loads(after)["mcp_servers"] == {
        "other": {"command": "y"},
        "paddock": {"command": "/opt/paddock", "args": ["mcp", "--workspace", "/work"]},
    }


@pytest.mark.parametrize(
    "text",
    ["= 1", '[mcp_servers.paddock]\ncommand = "other"\n', 'mcp_servers = { other = { command = "y" } }\n'],
)
def test_toml_that_would_have_to_be_rewritten_is_refused(text: str) -> None:
    with pytest.raises(PaddockError):
        with_entry(CLIENTS["codex"], text, COMMAND)


def test_variables_say_where_a_configuration_is() -> None:
    path = CLIENTS["codex"].path
    assert expanded(path, {}, "/home/a") == "/home/a/.codex/config.toml"
    assert expanded(path, {"CODEX_HOME": "/c"}, "/home/a") == "/c/config.toml"
