"""Finds what a user has installed: skills in the standard places, and plugins that Codex's settings name."""

from __future__ import annotations

import posixpath
import re
from functools import partial

from msgspec import Struct

from paddock.discovery.files import Reader
from paddock.discovery.root import MAX_DEPTH, Plugin, find_plugin, find_skills
from paddock.discovery.settings import Home, read_table
from paddock.discovery.skill import Skill, describe
from paddock.errors import NotFound, RequestError

_PLUGIN_ID = re.compile(r"([.-]*\w[\w.-]*)@([.-]*\w[\w.-]*)")
"""`name@marketplace`; neither part leads out of the directory that is searched. It never backtracks, for a
key may have a mebibyte."""


class SkillRoot(Struct, frozen=True):
    """A standard place for skills."""

    id: str
    path: bytes


class InstalledPlugin(Struct, frozen=True):
    """A plugin that is installed and enabled. Its skills have its name before theirs."""

    id: str
    name: str
    version: str
    root: bytes
    files: Plugin
    skills: list[Skill]


class Installed(Struct, frozen=True):
    """Everything that a user has installed."""

    plugins: list[InstalledPlugin]
    skills: list[tuple[SkillRoot, Skill]]


async def find_installed(home: Home, reader: Reader) -> Installed:
    """Look into the standard places. Anything unusable becomes a warning."""
    roots = (
        SkillRoot("codex-home-skills", posixpath.join(home.codex_home, b"skills")),
        SkillRoot("user-agent-skills", posixpath.join(home.user_home, b".agents/skills")),
    )
    skills = [(root, skill) for root in roots for skill in await _skills_below(root.path, reader)]
    return Installed(plugins=await _plugins(home, reader), skills=skills)


async def _skills_below(path: bytes, reader: Reader, prefix: str = "") -> list[Skill]:
    try:
        tree = await reader.files.list_tree(path, MAX_DEPTH)
    except NotFound:
        return []
    except RequestError as error:
        reader.warnings.append(f"failed to look for skills in {reader.show(path)}: {error}")
        return []
    reader.warnings += tree.problems
    skills = []
    for files in await find_skills(tree, reader):
        try:
            skills.append(await reader.files.compute(partial(describe, files, prefix)))
        except ValueError as problem:
            shown = reader.show(files.instructions.path)
            reader.warnings.append(f"skill {shown} is left out: {problem}")
    return skills


async def _plugins(home: Home, reader: Reader) -> list[InstalledPlugin]:
    try:
        table = await read_table(home.config_file, reader.files)
    except RequestError as error:
        reader.warnings.append(str(error))
        return []
    wanted = table.get("plugins")
    if not isinstance(wanted, dict):
        return []
    plugins = []
    for plugin_id, entry in sorted(wanted.items()):
        is_enabled = isinstance(entry, dict) and entry.get("enabled") is True
        name = _PLUGIN_ID.fullmatch(plugin_id)
        if is_enabled and name is not None:
            versions = posixpath.join(
                home.codex_home, b"plugins/cache", name[2].encode("utf-8"), name[1].encode("utf-8")
            )
            plugin = await _installed(plugin_id, name[1], versions, reader)
            if plugin is not None:
                plugins.append(plugin)
    return plugins


async def _installed(plugin_id: str, name: str, versions: bytes, reader: Reader) -> InstalledPlugin | None:
    try:
        tree = await reader.files.list_tree(versions, 0)
    except RequestError:
        tree = None
    found = tree.directories[1:] if tree is not None else []
    if not found:
        reader.warnings.append(f"plugin {plugin_id} is enabled and not installed")
        return None
    root = max(found, key=_version_order)
    files = await find_plugin(root, reader)
    if files is None:
        reader.warnings.append(f"plugin {plugin_id} has no manifest in {reader.show(root)}")
        return None
    return InstalledPlugin(
        id=plugin_id,
        name=name,
        version=posixpath.basename(root).decode("utf-8", "replace"),
        root=root,
        files=files,
        skills=await _skills_below(posixpath.join(root, b"skills"), reader, f"{name}:"),
    )


def _version_order(path: bytes) -> list[tuple[int, bytes]]:
    """Return a key that sorts numbers in names as numbers: 1.10 is after 1.9."""
    parts = re.split(rb"(\d+)", posixpath.basename(path))
    return [(int(part) if part.isdigit() else -1, part) for part in parts]
