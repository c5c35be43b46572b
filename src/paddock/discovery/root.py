"""Finds what one directory offers: a plugin, skills, and the plugins that lend skills their names.

A skill is a file `SKILL.md`, wherever it is below the root. A plugin is a directory with a
manifest. This module does not interpret a manifest, except to find its two other files.
"""

from __future__ import annotations

import posixpath
from functools import partial

from msgspec import DecodeError, Raw, Struct, json

from paddock.discovery.files import Reader, TextFile, Tree
from paddock.errors import InvalidRequest, RequestError

MANIFESTS = (b".codex-plugin/plugin.json", b".claude-plugin/plugin.json", b".cursor-plugin/plugin.json")
"""Where a plugin's manifest may be; the first readable one counts."""

SKILL_FILE = b"SKILL.md"
SKILL_METADATA = b"agents/openai.yaml"
MAX_DEPTH = 6
"""How far below the root to look for skills and manifests, as in the reference."""


class Plugin(Struct, frozen=True):
    """A plugin's manifest and the files that it names."""

    manifest: TextFile
    mcp_config: TextFile | None
    apps_config: TextFile | None


class SkillFiles(Struct, frozen=True):
    """The files of one skill."""

    instructions: TextFile
    metadata: TextFile | None


class FoundRoot(Struct, frozen=True):
    """What a directory offers; skills and manifests sorted by path."""

    plugin: Plugin | None
    skills: list[SkillFiles]
    namespace_manifests: list[TextFile]


async def look_into(path: bytes, reader: Reader) -> FoundRoot:
    """Find what a directory offers. Raises RequestError if it can't be read at all."""
    shown = reader.show(path)
    try:
        is_directory = await reader.files.is_directory(path)
    except RequestError as error:
        # The path is in the text already; what is missing is the reason.
        reason = str(error).removeprefix(f"can't look at {path.decode('utf-8', 'surrogateescape')!r}: ")
        raise InvalidRequest(f"failed to inspect capability root {shown}: {reason}") from error
    if not is_directory:
        raise InvalidRequest(f"capability root {shown} is not a directory")
    root = path.rstrip(b"/") or b"/"
    tree = await reader.files.list_tree(root, MAX_DEPTH)
    reader.warnings += tree.problems
    plugin = await find_plugin(root, reader)
    manifests = {plugin.manifest.path: plugin.manifest} if plugin is not None else {}
    for directory in await reader.files.compute(partial(_with_manifest, tree)):
        manifest = await find_manifest(directory, reader) if directory != root else None
        if manifest is not None:
            manifests[manifest.path] = manifest
    if plugin is None:
        above = await _manifest_above(root, reader)
        if above is not None:
            manifests[above.path] = above
    return FoundRoot(
        plugin=plugin,
        skills=await find_skills(tree, reader),
        namespace_manifests=[manifests[path] for path in sorted(manifests)],
    )


async def find_skills(tree: Tree, reader: Reader) -> list[SkillFiles]:
    """Find the skills of a tree, sorted by path."""
    skills = []
    for path in await reader.files.compute(partial(_skill_files, tree)):
        instructions = await reader.text(path)
        if instructions is not None:
            metadata = await reader.text(posixpath.join(posixpath.dirname(path), SKILL_METADATA))
            skills.append(SkillFiles(instructions, metadata))
    return skills


def _skill_files(tree: Tree) -> list[bytes]:
    return sorted(path for path in tree.files if posixpath.basename(path) == SKILL_FILE)


async def find_plugin(directory: bytes, reader: Reader) -> Plugin | None:
    """Find the plugin whose root a directory is."""
    manifest = await find_manifest(directory, reader)
    if manifest is None:
        return None
    return Plugin(
        manifest=manifest,
        mcp_config=await _named_file(directory, manifest, "mcpServers", b".mcp.json", reader),
        apps_config=await _named_file(directory, manifest, "apps", b".app.json", reader),
    )


async def find_manifest(directory: bytes, reader: Reader) -> TextFile | None:
    """Find the manifest of the plugin whose root a directory is."""
    for name in MANIFESTS:
        manifest = await reader.text(posixpath.join(directory, name))
        if manifest is not None:
            return manifest
    return None


def _with_manifest(tree: Tree) -> list[bytes]:
    folders = {posixpath.dirname(name) for name in MANIFESTS}
    return [
        posixpath.dirname(directory)
        for directory in tree.directories
        if posixpath.basename(directory) in folders
    ]


async def _manifest_above(root: bytes, reader: Reader) -> TextFile | None:
    directory = root
    while directory != b"/":
        directory = posixpath.dirname(directory)
        manifest = await find_manifest(directory, reader)
        if manifest is not None:
            return manifest
    return None


async def _named_file(
    directory: bytes, manifest: TextFile, key: str, default: bytes, reader: Reader
) -> TextFile | None:
    """Return the file that a manifest names, or the default; none if the manifest has the content itself."""
    named = await reader.files.compute(partial(_member, manifest.contents, key))
    if isinstance(named, dict):
        return None
    if isinstance(named, str):
        problem = _problem_of(named)
        if problem is None:
            path = posixpath.normpath(named).encode("utf-8", "surrogateescape")
            return await reader.text(posixpath.join(directory, path))
        reader.warnings.append(f"ignoring {key} in {reader.show(manifest.path)}: {problem}")
    return await reader.text(posixpath.join(directory, default))


def _member(contents: str, key: str) -> object:
    """Return a member of an object in JSON: a text, {} for any object, or None for everything else."""
    try:
        # The content of the members is only looked through, which takes a tenth of the time of making it.
        member = bytes(json.decode(contents, type=dict[str, Raw]).get(key, b""))
    except (DecodeError, RecursionError):
        return None
    if member.startswith(b"{"):
        return {}
    return json.decode(member) if member.startswith(b'"') else None


def _problem_of(path: str) -> str | None:
    if not path.startswith("./"):
        return "path must start with `./`"
    if ".." in path.split("/") or "\0" in path:
        return "path must remain below the capability root"
    return None
