"""What a client learns of the settings, skills and plugins on the server's host."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest

from paddock.discovery import root, settings
from paddock.discovery.files import MAX_FILE_BYTES, MAX_TOTAL_BYTES
from paddock.fs.lanes import Lanes
from paddock.server.handlers import discovery
from tests.turn_count import counted
from tests.wire import WireClient, WireError, session


def put(path: Path, text: str | bytes = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    return tmp_path


async def look_into(client: WireClient, *paths: Path) -> list[Any]:
    roots = [{"id": str(number), "path": str(path)} for number, path in enumerate(paths)]
    result = await client.call("capabilityRoots/discoverV1", {"roots": roots})
    found: list[Any] = result["roots"]
    return found


async def read_config(client: WireClient, *paths: list[str]) -> Any:
    params = {"cwd": "/", "configPaths": list(paths), "requirementsPaths": []}
    return await client.call("environmentConfig/read", params)


# --- settings ---------------------------------------------------------------


async def test_the_settings_of_the_user_are_reduced_to_what_was_asked_for(home: Path) -> None:
    put(home / "codex/config.toml", 'model = "m"\nsecret = "s"\n[tools]\nweb = true\nold = 1979-05-27\n')
    async with session() as client:
        result = await read_config(client, ["model"], ["tools", "old"])

    assert result["userHomeDir"] == f"file://{home}/home"
    assert result["codexHomeDir"] == f"file://{home}/codex"
    layer = result["config"]["layers"][-1]
    assert layer["source"] == f"user ({home}/codex/config.toml)"
    assert layer["baseDir"] == f"file://{home}/codex"
    assert tomllib.loads(layer["toml"]) == tomllib.loads('model = "m"\n[tools]\nold = 1979-05-27\n')


async def test_a_host_without_settings_says_nothing(home: Path) -> None:
    async with session() as client:
        result = await read_config(client, ["a key that nobody has"])
    assert result["config"] == {"layers": [], "cloudInsertionIndex": 0}


async def test_a_directory_of_another_host_is_refused(home: Path) -> None:
    params = {"cwd": "file://elsewhere/x", "configPaths": [], "requirementsPaths": []}
    async with session() as client:
        with pytest.raises(WireError, match=r"params\.cwd: .* does not name a directory of this Linux host"):
            await client.call("environmentConfig/read", params)


@pytest.mark.parametrize("content", [b"broken = = 1", b"\xff", b"x" * (1024 * 1024 + 1)])
async def test_a_file_that_is_in_error_is_named(home: Path, content: bytes) -> None:
    path = put(home / "codex/config.toml", content)
    async with session() as client:
        with pytest.raises(WireError, match="failed to load executor-local config") as refusal:
            await read_config(client, ["model"])
    assert refusal.value.code == -32603
    assert str(path) in refusal.value.message


# --- directories ------------------------------------------------------------


async def test_a_plugin_is_found_with_its_files_and_skills(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root / ".claude-plugin/plugin.json", '{"name": "p", "mcpServers": "./m/servers.json"}')
    put(root / "m/servers.json", "servers")
    put(root / ".app.json", "apps")
    put(root / "skills/b/SKILL.md", "second")
    put(root / "skills/a/SKILL.md", "first")
    put(root / "skills/a/agents/openai.yaml", "metadata")
    put(root / "skills/.hidden/deep/SKILL.md", "hidden")
    put(root / "skills/skill.md", "not one")
    async with session() as client:
        (found,) = await look_into(client, root)

    assert found["error"] is None
    assert found["warnings"] == []
    assert {name: part and part["contents"] for name, part in found["plugin"].items()} == {
        "manifest": '{"name": "p", "mcpServers": "./m/servers.json"}',
        "mcpConfig": "servers",
        "appsConfig": "apps",
    }
    assert [skill["instructions"]["contents"] for skill in found["skills"]] == ["hidden", "first", "second"]
    assert found["skills"][1]["metadata"] == {
        "path": str(root / "skills/a/agents/openai.yaml"),
        "contents": "metadata",
    }


async def test_skills_are_looked_for_six_levels_deep_through_links_and_never_in_circles(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    put(root / "1/2/3/4/5/6/SKILL.md", "six")
    put(root / "1/2/3/4/5/6/7/SKILL.md", "seven")
    put(tmp_path / "elsewhere/SKILL.md", "linked")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "circle").symlink_to(root)
    put(root / "x")
    (root / "SKILL.md").symlink_to(root / "x")
    async with session() as client:
        (found,) = await look_into(client, root)

    assert [skill["instructions"]["contents"] for skill in found["skills"]] == ["six", "linked"]


async def test_the_manifests_around_a_directory_are_told_for_the_names_of_its_skills(tmp_path: Path) -> None:
    put(tmp_path / "plugin/.codex-plugin/plugin.json", "above")
    put(tmp_path / "plugin/skills/inner/.cursor-plugin/plugin.json", "below")
    async with session() as client:
        (found,) = await look_into(client, tmp_path / "plugin/skills")

    assert found["plugin"] is None
    assert [manifest["contents"] for manifest in found["namespaceManifests"]] == ["above", "below"]


@pytest.mark.parametrize(
    ("named", "is_ignored", "expected"),
    [
        ('"./m.json"', False, "m"),
        ('"m.json"', True, "default"),
        ('"/etc/hostname"', True, "default"),
        ('"./../m.json"', True, "default"),
        ('"./missing.json"', False, None),
        ('{"inline": 1}', False, None),
        ("[]", False, "default"),
    ],
)
async def test_a_manifest_names_files_below_its_plugin_only(
    tmp_path: Path, named: str, is_ignored: bool, expected: str | None
) -> None:
    root = tmp_path / "root"
    put(root / ".codex-plugin/plugin.json", f'{{"mcpServers": {named}}}')
    put(root / "m.json", "m")
    put(tmp_path / "m.json", "outside")
    put(root / ".mcp.json", "default")
    async with session() as client:
        (found,) = await look_into(client, root)

    config = found["plugin"]["mcpConfig"]
    assert (config and config["contents"]) == expected
    assert any("ignoring mcpServers" in warning for warning in found["warnings"]) == is_ignored


async def test_what_can_not_be_used_is_left_out_with_a_warning(tmp_path: Path) -> None:
    put(tmp_path / "a/SKILL.md", b"\xff")
    put(tmp_path / "b/SKILL.md", b"x" * (1024 * 1024 + 1))
    put(tmp_path / "c/SKILL.md", b"x" * (1024 * 1024))
    # No warning: it has the name of a manifest, and is no file.
    (tmp_path / ".codex-plugin/plugin.json").mkdir(parents=True)
    async with session() as client:
        (found,) = await look_into(client, tmp_path)

    assert [skill["instructions"]["path"] for skill in found["skills"]] == [str(tmp_path / "c/SKILL.md")]
    assert [warning.split(" is ")[0].split(" exceeds ")[0] for warning in found["warnings"]] == [
        f"capability file {tmp_path}/a/SKILL.md",
        f"capability file {tmp_path}/b/SKILL.md",
    ]


async def test_a_directory_that_fails_does_not_hinder_the_others(tmp_path: Path) -> None:
    put(tmp_path / "good/SKILL.md", "x")
    async with session() as client:
        missing, file, good = await look_into(
            client, tmp_path / "missing", put(tmp_path / "file"), tmp_path / "good"
        )
        foreign = await client.call(
            "capabilityRoots/discoverV1", {"roots": [{"id": "f", "path": "file://host/x"}]}
        )

    assert "failed to inspect capability root" in missing["error"]
    assert file["error"] == f"capability root {tmp_path}/file is not a directory"
    assert len(good["skills"]) == 1
    assert "file://host/x" in foreign["roots"][0]["error"]


async def test_more_directories_than_the_limit_are_refused(tmp_path: Path) -> None:
    async with session() as client:
        with pytest.raises(WireError, match="at most 128 roots"):
            await look_into(client, *[tmp_path] * 129)


# --- what is installed ------------------------------------------------------


async def test_skills_in_the_standard_places_are_described(home: Path) -> None:
    put(home / "codex/skills/.system/s/SKILL.md", "---\nname: one\ndescription: d1\n---")
    put(home / "home/.agents/skills/t/SKILL.md", "---\nname: two\ndescription: d2\n---")
    put(home / "home/.agents/skills/t/agents/openai.yaml", "dependencies: {tools: [{type: mcp, value: x}]}")
    bad = put(home / "home/.agents/skills/u/SKILL.md", "no front matter")
    async with session() as client:
        result = await client.call("capabilities/discoverV2", {"cwd": "/"})

    assert [(skill["name"], skill["discoveryRoot"]["id"]) for skill in result["skills"]] == [
        ("one", "codex-home-skills"),
        ("two", "user-agent-skills"),
    ]
    (tool,) = result["skills"][1]["dependencies"]["tools"]
    assert (tool["type"], tool["value"]) == ("mcp", "x")
    (warning,) = result["warnings"]
    assert str(bad) in warning


async def test_enabled_plugins_are_found_in_their_newest_version(home: Path) -> None:
    put(
        home / "codex/config.toml",
        '[plugins]\n"p@market" = {enabled = true}\n"q@market" = {enabled = false}\n'
        '"gone@market" = {enabled = true}\n"../x@.." = {enabled = true}\n',
    )
    for version in ("1.9", "1.10"):
        put(home / f"codex/plugins/cache/market/p/{version}/.codex-plugin/plugin.json", version)
    put(home / "codex/plugins/cache/market/p/1.10/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---")
    async with session() as client:
        result = await client.call("capabilities/discoverV2", {"cwd": "/"})

    (plugin,) = result["plugins"]
    assert (plugin["id"], plugin["version"]) == ("p@market", "1.10")
    assert plugin["files"]["manifest"]["contents"] == "1.10"
    assert [skill["name"] for skill in plugin["skills"]] == ["p:s"]
    assert result["warnings"] == ["plugin gone@market is enabled and not installed"]


async def test_a_host_with_nothing_installed_offers_nothing(home: Path) -> None:
    async with session() as client:
        result = await client.call("capabilities/discoverV2", {"cwd": "file:///"})
    assert result == {"plugins": [], "skills": [], "warnings": []}


async def test_settings_that_take_hours_to_read_are_refused_at_once(home: Path) -> None:
    path = put(home / "codex/config.toml", "a." * 400_000 + "a = 1\n")
    async with session() as client:
        with pytest.raises(WireError, match="dots outside of strings"):
            await read_config(client, ["a"])
        put(path, f'[plugins.{"p" * 900_000}]\nenabled = true\n[plugins."a@b"]\nenabled = true\n')
        result = await client.call("capabilities/discoverV2", {"cwd": "/"})
    assert result["plugins"] == []


# --- what it costs others ---------------------------------------------------


async def test_what_takes_long_is_done_in_threads(home: Path) -> None:
    put(home / "root/.codex-plugin/plugin.json", "{}")
    put(home / "root/skills/a/SKILL.md", "---\ndescription: d\n---\n")
    put(home / "codex/config.toml", 'model = "m"\n')
    async with session() as client:
        with (
            counted(discovery, "write_result") as written,
            counted(discovery, "_tree") as trees,
            counted(discovery, "_described_root") as described,
            counted(root, "_skill_files") as filtered,
            counted(root, "_member") as manifests,
            counted(settings, "parse_toml") as parsed,
        ):
            await look_into(client, home / "root")
            await read_config(client, ["model"])
            await client.call("capabilities/discoverV2", {"cwd": "/"})

    for count in (written, trees, described, filtered, manifests, parsed):
        assert count.on_loop == 0
        assert count.elsewhere > 0


async def test_one_client_occupies_one_thread(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home / "codex/config.toml", 'model = "m"\n')
    running = most = 0
    run = Lanes.run

    async def observed(self: Lanes, work: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(0)
            return await run(self, work)
        finally:
            running -= 1

    monkeypatch.setattr(Lanes, "run", observed)
    async with session() as client:
        asked = [
            client.request(
                "environmentConfig/read", {"cwd": "/", "configPaths": [["model"]], "requirementsPaths": []}
            )
            for _ in range(20)
        ]
        for request in asked:
            await client.answer(request)
    assert most == 1


async def test_a_text_counts_as_long_as_it_is_in_an_answer(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / f"{number}/SKILL.md", "\1" * MAX_FILE_BYTES)
    async with session() as client:
        found = await look_into(client, tmp_path)
    assert len(found[0]["skills"]) == MAX_TOTAL_BYTES // (6 * MAX_FILE_BYTES)
    assert f"all together exceed {MAX_TOTAL_BYTES} bytes as JSON" in found[0]["warnings"][0]
